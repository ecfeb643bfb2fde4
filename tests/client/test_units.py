"""The client's units, which the library shares, and what it makes of those that programs pass."""

from pathlib import Path

from hypothesis import strategies as st

from detectors.contract import MAX_UNITS, UNITS, find_excess, fit_units
from tests.cases import each_case
from tests.exploration import explored

ROOT = Path(__file__).parents[2]
COUNTS = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
    *("audio_prompt_tokens", "reasoning_tokens"),
)


def test_the_library_has_the_same_file() -> None:
    home, linked = "client/tallystick/reading/units.py", "detectors/contract/units.py"
    assert (ROOT / linked).samefile(ROOT / home)


@explored(
    2_000,
    st.dictionaries(st.sampled_from(COUNTS), st.integers(0, 20)),
    st.dictionaries(st.sampled_from(UNITS), st.integers(-1, 9), max_size=20),
)
def test_units_that_fit_are_units_that_the_service_accepts(
    counts: dict[str, int], units: dict[str, int]
) -> None:
    fitting = fit_units(counts, units)
    assert find_excess(counts, fitting) == []
    assert len(fitting) <= MAX_UNITS
    assert all(0 < fitting[name] <= units[name] for name in fitting)
    valid = {name: amount for name, amount in units.items() if amount > 0}
    if len(valid) <= MAX_UNITS and not find_excess(counts, valid):
        assert fitting == valid


@each_case("value", [True, "CANARY", None, 1.5, float("nan"), -1, 10**13])
def test_no_other_value_is_an_amount(value: object) -> None:
    assert fit_units({}, {"code_executions": value}) == {}
    assert fit_units({}, {"CANARY": 1}) == {}
