"""The offsets of a zone are those of Python's database, whatever years a log has calls in."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from detectors.prices.book import PriceBook
from detectors.report.account import Terms, zones
from detectors.report.account.zones import digest_zone, list_offsets, shift_days
from detectors.report.counting.projection import EPOCH
from tests.cases import each_case


def shifts(zone: str, times: list[datetime]) -> list[int]:
    frame = pl.DataFrame({"ts": times}, schema={"ts": pl.Datetime("us", "UTC")})
    at_us = [(each - EPOCH) // timedelta(microseconds=1) for each in times]
    calls = pl.DataFrame({"at_us": at_us}).lazy()
    found: list[int] = calls.select(shift=shift_days([frame], zone)).collect()["shift"].to_list()
    return found


@each_case("zone", ["Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia"])
def test_days_are_those_of_python_in_each_year(zone: str) -> None:
    random, first = Random(zone), datetime(2000, 1, 1, tzinfo=UTC)
    times = [first + timedelta(seconds=random.randrange(100 * 365 * 86_400)) for _ in range(3_000)]
    times += [datetime(2011, 12, 29, 12, tzinfo=UTC) + timedelta(hours=at) for at in range(48)]
    expected = [(each.astimezone(ZoneInfo(zone)).date() - each.date()).days for each in times]
    assert shifts(zone, times) == expected


def test_two_calls_a_century_apart_need_the_offsets_of_two_years() -> None:
    zone, times = "Europe/Berlin", [datetime(year, 7, 1, 23, tzinfo=UTC) for year in (2000, 2099)]
    assert len(list_offsets(zone, {2000, 2099})) <= 6
    assert shifts(zone, times) == [1, 1]
    before = zones._offsets_in.cache_info()
    shifts(zone, times)
    after = zones._offsets_in.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 2)


def test_equal_digests_mean_equal_rules_on_these_days(monkeypatch: pytest.MonkeyPatch) -> None:
    winter, summer = (date(2026, 1, 5), date(2026, 2, 5)), (date(2026, 7, 1), date(2026, 7, 1))
    terms = Terms.of(PriceBook(), "", {}, "Europe/Berlin")
    known = {days: terms.digest([], *days) for days in (winter, summer)}
    assert terms.digest([], *winter) == known[winter] != known[summer]
    assert digest_zone("Europe/Berlin", *winter) in known[winter]
    zones._offsets_in.cache_clear()
    # A new release of the database of zones: no summer time any more.
    offset = zones._offset
    always: Any = lambda zone, at: min(offset(zone, at), timedelta(hours=1))  # noqa: E731
    with monkeypatch.context() as patched:
        patched.setattr(zones, "_offset", always)
        assert terms.digest([], *winter) == known[winter]
        assert terms.digest([], *summer) != known[summer]
    zones._offsets_in.cache_clear()
    # Those days alone matter, up to their end.
    ends = [
        digest_zone("Europe/Berlin", date(2026, 3, 1), date(2026, 3, at)) for at in (27, 28, 29)
    ]
    assert ends[0] == ends[1] != ends[2]
