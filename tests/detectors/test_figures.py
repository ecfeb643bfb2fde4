"""How numbers and labels are written for people."""

from datetime import date
from decimal import Decimal
from typing import Any

from detectors.wording import figures
from detectors.wording.figures import change, counted, percent, short_day, short_number, whole_usd
from detectors.wording.labels import inert, is_right_to_left, may_be_link, shortened
from tests.cases import data_of, each_case
from tests.detectors.hostile_links import LINKS

TABLES = data_of(__file__)


@each_case(("writer", "value", "written"), TABLES["written"])
def test_a_figure_is_written_for_people(writer: str, value: Any, written: str) -> None:
    """Dollars in the table are texts, because money is decimal."""
    amount = Decimal(value) if isinstance(value, str) else value
    assert getattr(figures, writer)(amount) == written


@each_case(("now", "before", "words"), TABLES["changes"])
def test_a_change_is_a_percentage_of_what_was(now: str, before: str, words: str) -> None:
    assert change(Decimal(now), Decimal(before)) == words


def test_plurals_agree_and_a_short_day_has_no_year() -> None:
    assert short_day(date(2026, 11, 2)) == "Nov 2"
    assert whole_usd(Decimal("-1234.5")) == "−$1,235"
    assert (counted(1, "call"), counted(1_200, "call")) == ("1 call", "1,200 calls")
    assert counted(2, "row was", "rows were") == "2 rows were"


def test_labels_cannot_affect_the_text_around_them() -> None:
    assert inert("a\u202eb\x07") == "a\\u202eb\\x07"
    assert shortened("a" * 9, 5) == "aaaa…"
    assert shortened("short", 5) == "short"
    assert is_right_to_left("שלום")
    assert not is_right_to_left("hello")


@each_case("label", LINKS)
def test_whatever_could_become_a_link_is_noticed(label: str) -> None:
    assert may_be_link(label)
    assert may_be_link(f"see {label} now")


def test_names_of_models_and_versions_are_no_links() -> None:
    labels = ("gpt-4.1-mini", "claude-3.5-sonnet", "v1.5", "svc.v2", "e.g. this", "$1,991.50. You")
    assert [label for label in labels if may_be_link(label)] == []


def test_numbers_below_each_other_have_the_same_digits() -> None:
    assert [short_number(each, padded=True) for each in (7_100_000, 7_071_000, 120_000, 385)] == [
        *("7.10M", "7.07M", "120K", "385")
    ]
    assert [percent(each, padded=True) for each in (14.0, 14.8, 0.01)] == [
        *("14.0%", "14.8%", "< 0.1%")
    ]
    changes = [change(Decimal(each), Decimal(50), padded=True) for each in ("57", "57.4", "50")]
    assert changes == ["+14.0%", "+14.8%", "No change"]
