"""The thresholds that an account may adjust: their labels, units, limits and defaults.

The detectors' modules define every threshold; a test compares these defaults with theirs.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, defstruct

from detectors.contract.thresholds import Thresholds, limits_of

# The values that a settings page accepts in place of the largest of all thresholds.
_MOST: Final = 1_000_000_000
_UNITS: Final = ("tokens", "seconds", "usd", "share", "multiple", "calls")


class Assumption(Struct, frozen=True):
    """A threshold with its label and default; its detector's short code, or "" for all."""

    name: str
    label: str
    default: float

    @property
    def detector(self) -> str:
        code = self.name.partition("_")[0]
        return code if code[1:].isdigit() else ""

    @property
    def unit(self) -> str:
        """Return `tokens`, `seconds`, `usd`, `share`, `multiple` or `calls`."""
        return next(unit for unit in _UNITS if unit in self.name.split("_"))

    @property
    def is_whole(self) -> bool:
        return isinstance(self.default, int)

    @property
    def limits(self) -> tuple[float, float]:
        lowest, highest = limits_of(self.name)
        return lowest, min(highest, _MOST)


ASSUMPTIONS: Final = (
    Assumption("d1_median_completion_tokens", "Short answers: median of a route, at most", 150),
    Assumption(
        "d1_p90_completion_tokens", "Short answers: 90th percentile of a route, at most", 400
    ),
    Assumption("d1_max_completion_tokens", "Longest answer that counts as short", 400),
    Assumption("d2_cache_seconds", "A prompt cache lives for", 300),
    Assumption("d2_hour_cache_seconds", "A one-hour prompt cache lives for", 3600),
    Assumption("d2_conversation_share", "Conversations: share of calls that grow, at least", 0.5),
    Assumption("d3_p90_multiple", "Long prompts: multiple of the usual length, over", 3.0),
    Assumption("d3_saving_share", "Avoidable share of the tokens above the usual length", 0.5),
    Assumption("d4_gap_seconds", "Duplicate calls follow each other within", 30.0),
    Assumption("d4_min_burst_calls", "Calls in a burst of duplicates, at least", 3),
    Assumption("d5_again_seconds", "A cut-off answer is retried within", 120.0),
    Assumption(
        "d5_thrown_away_share", "Share of a cut-off answer that its continuation repeats", 0.5
    ),
    Assumption("d6_session_gap_seconds", "A session ends after a pause of", 900.0),
    Assumption("d6_calls_per_request", "Calls that one request could replace", 5),
    Assumption("d6_saving_share", "Avoidable share of repeated prompts", 0.5),
    Assumption("floor_usd", "Smallest finding to list, per month", 0.01),
    Assumption("medium_severity_usd", "Medium severity: per month, at least", 50.0),
    Assumption("high_severity_usd", "High severity: per month, at least", 500.0),
)

if TYPE_CHECKING:
    AssumedThresholds = Thresholds
else:
    # Named like its base, which is the name of its schema in the API's documentation.
    AssumedThresholds = defstruct(
        "Thresholds",
        [(each.name, type(each.default), each.default) for each in ASSUMPTIONS if each.detector],
        bases=(Thresholds,),
        namespace={"__doc__": Thresholds.__doc__},
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def read_assumptions(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that differ from the defaults; other names are ignored.

    A value that the thresholds do not accept raises `ValueError`.
    """
    known = {each.name: values[each.name] for each in ASSUMPTIONS if each.name in values}
    AssumedThresholds(**known)
    return {each.name: known[each.name] for each in _differing(known)}


def changed_assumptions(thresholds: Thresholds) -> list[tuple[Assumption, float]]:
    """Return the assumptions of a report that differ from the defaults, with its values."""
    used = {each.name: getattr(thresholds, each.name) for each in ASSUMPTIONS}
    return [(each, used[each.name]) for each in _differing(used)]


def _differing(values: Mapping[str, float]) -> Iterable[Assumption]:
    return [e for e in ASSUMPTIONS if e.name in values and values[e.name] != e.default]
