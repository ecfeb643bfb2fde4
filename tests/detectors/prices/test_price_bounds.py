"""What a price file may have at most, and what it says about the line that breaks a rule."""

from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import pytest

import detectors
from detectors import PriceBook
from detectors.errors import PriceTermsError
from detectors.prices.agreed.aliases import Alias, Aliases
from detectors.prices.agreed.bounds import MAX_CHARACTERS, MAX_DATES, MAX_TERMS
from detectors.wording.quality import warnings
from tests.cases import each_case

RATES = '[overrides.openai."gpt-5.4"]\ninput_mtok = {}\noutput_mtok = 1\n'
_FIRST_DAY = date(2020, 1, 1)


def _days(count: int) -> list[date]:
    return [_FIRST_DAY + timedelta(days=3 * number) for number in range(count)]


def _dated(days: list[date]) -> str:
    entries = ", ".join(f"{{ share = 0.1, from = {day}, until = {day} }}" for day in days)
    return f"[discounts]\nopenai = [{entries}]\n"


def _names(count: int) -> str:
    return "".join(f'm{number} = ["openai", "gpt-5.4"]\n' for number in range(count))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('[discounts]\nopenai = "1e-300000000"', "line 2: discounts.openai", id="tiny"),
        pytest.param("[discounts]\nopenai = 1e-300000000", "line 2: discounts.openai", id="float"),
        pytest.param("a." * 20_000 + "b = 1", "line 1: expected a key of at most 8", id="key"),
        pytest.param("\n[" + "a . " * 20_000 + "b]", "line 2: expected a key", id="header"),
        pytest.param('"a".' * 9 + "b = 1", "line 1: expected a key", id="quoted key"),
        pytest.param(
            f"[discounts]\nopenai = {'9' * 4_301}", "line 2: expected a name or a number", id="int"
        ),
        pytest.param(f"x = {'[' * 1_000}", "line 1: expected at most 8 brackets", id="arrays"),
        pytest.param(f"x = {'{ a = ' * 1_000}", "line 1: expected at most 8 brackets", id="tables"),
        pytest.param("#" * (MAX_CHARACTERS + 1), "has over 100,000 characters", id="length"),
        pytest.param(f'# a\n"{"a" * 2_001}" = 1', "line 2: expected a text of at most", id="text"),
        pytest.param("[discounts]\nopenai = '''0.1'''", "line 2: expected a text on one", id="'''"),
        pytest.param(RATES.format('"1e999999"'), "line 2: overrides.openai.gpt-5.4.in", id="huge"),
        pytest.param(RATES.format("1e999999"), "line 2: overrides.openai.gpt-5.4.in", id="inf"),
        pytest.param(RATES.format("0." + "0" * 30 + "1"), "at most 30 decimals", id="decimals"),
        pytest.param(RATES.format(1_000_001), "from 0 to 1,000,000", id="dear"),
        pytest.param(_dated(_days(MAX_TERMS + 1)), "at most 1,000 prices", id="terms"),
        pytest.param("[aliases.x]\n" + _names(MAX_TERMS + 1), "at most 1,000 prices", id="aliases"),
        pytest.param(_dated(_days(MAX_DATES + 1)), "at most 200 different dates", id="dates"),
        pytest.param(f'[aliases."{"p" * 201}"]\nx = ["a", "b"]', "line 2: aliases.p", id="name"),
    ],
)  # fmt: skip
def test_a_costly_file_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(PriceTermsError) as caught:
        PriceBook().with_toml(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@each_case("value", [10**5_000, -1, Decimal("1e999999"), "1e999999", "9" * 5_000])
def test_the_library_refuses_the_same_numbers(value: Any) -> None:
    with pytest.raises(PriceTermsError, match="expected US dollars"):
        PriceBook(overrides={("openai", "gpt-5.4"): {"input_mtok": value}})
    with pytest.raises(PriceTermsError, match="expected a share"):
        PriceBook(discounts={"openai": value})


@each_case("line", [2, 3, 5, 8, 11, 15, 16])
def test_an_error_names_the_line_of_the_term(line: int) -> None:
    lines = Path(__file__).with_suffix(".toml").read_text().splitlines()
    assert PriceBook().with_toml("\r\n".join(lines)).aliases
    broken = lines.copy()
    broken[line - 1] = {
        2: "openai = 1",
        3: "anthropic = { share = 2, from = 2026-01-01 }",
        5: "input_mtok = -1",
        8: 'input_mtok = "two"',
        11: "gpt-4o = { input = 1 }",
        15: '  "azure" ]',
        16: '"o[1]" = ["azure", "gpt-none"]',
    }[line]
    expected = 14 if line == 15 else line  # where the array begins
    with pytest.raises(PriceTermsError, match=rf"^line {expected}: "):
        PriceBook().with_toml("\r\n".join(broken))


def test_terms_up_to_the_limits_are_read_written_and_audited() -> None:
    text = _dated(_days(MAX_DATES // 2)) + "[aliases.azure]\n" + _names(MAX_TERMS // 2)
    book = PriceBook().with_toml(text)
    assert PriceBook().with_toml(book.to_toml()).to_toml() == book.to_toml()
    calls = [
        {
            "ts": f"{day}T12:00:00Z",
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 1_000,
            "completion_tokens": 0,
        }
        for day in (_FIRST_DAY, _FIRST_DAY + timedelta(days=1))
    ]
    report = detectors.audit(calls, prices=book)
    assert [float(each.spend_usd) for each in report.spend_by_day] == [0.00225, 0.0025]


def test_wildcards_mean_what_they_mean_one_by_one() -> None:
    rng, letters = Random(31), "aab***?[]!-"
    matched = 0
    for _ in range(800):
        patterns = ["".join(rng.choices(letters, k=rng.randint(1, 4))) for _ in range(8)]
        aliases = [Alias(patterns[each], patterns[-each], "x", "y") for each in range(1, 5)]
        label = "".join(rng.choices("aAb.-", k=rng.randint(1, 3)))
        model = "".join(rng.choices("abB.-]", k=rng.randint(1, 3)))
        matching = (
            each
            for each in sorted(aliases, key=lambda alias: not alias.is_exact)
            if fnmatchcase(label.lower(), each.provider) and fnmatchcase(model.lower(), each.model)
        )
        expected = next(matching, None)
        assert Aliases(aliases).find(label, model) == expected, (aliases, label, model)
        matched += expected is not None
    assert matched > 40


def test_what_a_stored_file_no_longer_gives_is_excluded_and_the_report_says_so() -> None:
    text = """\
[discounts]
openai = "1e-300000000"
anthropic = 0.5
[overrides.openai."gpt-gone"]
input_mtok = 1
[aliases.azure]
prod = ["azure", "gpt-gone"]
chat = ["azure", "gpt-4o"]
"""
    book = PriceBook().with_stored_toml(text)
    assert book.negotiated == ("anthropic: 50% off",)
    assert book.aliases == ("azure chat priced as azure gpt-4o",)
    assert [each.partition(":")[0] for each in book.excluded] == ["line 2", "line 4", "line 7"]
    call = {
        "ts": "2026-01-01T00:00:00Z",
        "provider": "anthropic",
        "model": "claude-opus-4-8",
        "prompt_tokens": 1_000,
        "completion_tokens": 0,
    }
    report = detectors.audit([call], prices=book)
    assert float(report.audit.total_spend_usd) == 0.0025
    assert any(each.startswith("3 of your prices are excluded") for each in warnings(report))
    rates = '[overrides.openai."gpt-5.4"]\ninput_mtok = "1e999999"'
    report = detectors.audit([call], prices=PriceBook().with_stored_toml(rates))
    assert "Line 2: overrides.openai.gpt-5.4.input_mtok: expected US dollars" in str(
        warnings(report)
    )
    for bad in ("not toml", "[" * 50_000):
        assert len(PriceBook().with_stored_toml(bad).excluded) == 1


def test_terms_that_were_stored_before_there_were_limits_of_their_number_apply() -> None:
    days = _days(MAX_TERMS + 1)
    names = "[aliases.x]\n" + _names(MAX_TERMS + 1)
    for stored in (_dated(days[: MAX_DATES + 1]), _dated(days), names):
        with pytest.raises(PriceTermsError, match="expected at most"):
            PriceBook().with_toml(stored)
        assert PriceBook().with_stored_toml(stored).excluded == ()
    book = PriceBook().with_stored_toml(_dated(days))
    assert len(book.negotiated) == len(days)
    call = {"provider": "openai", "model": "gpt-4o", "prompt_tokens": 1_000_000}
    calls = [
        {"ts": f"{day}T12:00:00Z", "completion_tokens": 0, **call}
        for day in (days[-1], days[-1] + timedelta(days=1))
    ]
    report = detectors.audit(calls, prices=book)
    assert [float(each.spend_usd) for each in report.spend_by_day] == [2.25, 2.5]


def test_equal_terms_are_written_alike_without_comments() -> None:
    one = '# secret\ndiscounts.openai = 0.10\n[aliases]\nazure.prod = ["azure", "gpt-4o"] # why'
    written = """\
[discounts]
openai = 0.1

[aliases.azure]
prod = { provider = "azure", model = "gpt-4o" }
"""
    other = (
        written.replace("openai", '"openai"').replace("azure]", "Azure]").replace("0.1", "'1e-1'")
    )
    assert PriceBook().with_toml(one).to_toml() == PriceBook().with_toml(other).to_toml() == written
