"""Days in a time zone: how far they are from the days in UTC, exactly, whatever the clocks do."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from hashlib import sha256
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from detectors.report.counting.projection import DAY_US, EPOCH

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_DIGITS: Final = 16


@cache
def is_zone(name: str) -> bool:
    """Check whether this machine knows a time zone with this name."""
    try:
        return bool(name) and ZoneInfo(name) is not None
    except (LookupError, ValueError, OSError):
        return False


def shift_days(frames: Sequence[pl.DataFrame], zone: str) -> pl.Expr:
    """Return the days from a call's day in UTC to its day in a zone: -1, 0 or 1.

    The offsets are those of Python's database of zones, which the service reads "today" from, and
    not of the one that Polars contains.
    """
    years = {year for frame in frames for year in frame["ts"].dt.year().unique()}
    local = pl.col("at_us") + _choose(list_offsets(zone, years))
    return (local // DAY_US - pl.col("at_us") // DAY_US).cast(pl.Int64)


def list_offsets(zone: str, years: Iterable[int]) -> list[tuple[int, int]]:
    """Return the offsets in these years, each with the time from which it applies.

    All in microseconds. The first applies from the beginning of the first year.
    """
    found: list[tuple[int, int]] = []
    for start, us in chain.from_iterable(_offsets_in(zone, year) for year in sorted(years)):
        if not found or found[-1][1] != us:
            found.append((start, us))
    return found


def digest_zone(zone: str, first_day: date, last_day: date) -> str:
    """Digest the offsets on some days in UTC, with the zone's name; equal digests, equal days."""
    begin, end = (_microseconds(_midnight(day) - EPOCH) for day in (first_day, last_day + _DAY))
    offsets = [
        (max(start, begin), us)
        for start, us in list_offsets(zone, range(first_day.year, last_day.year + 1))
        if start < end
    ]
    # Of those that begin before the days, the last applies.
    at_begin = sum(start == begin for start, _ in offsets) - 1
    return f"{zone} {sha256(repr(offsets[at_begin:]).encode()).hexdigest()[:_DIGITS]}"


def _choose(offsets: Sequence[tuple[int, int]]) -> pl.Expr:
    """Return the offset of a call's time; halves keep the expression flat."""
    if len(offsets) == 1:
        return pl.lit(offsets[0][1])
    half = len(offsets) // 2
    is_later = pl.col("at_us") >= offsets[half][0]
    return pl.when(is_later).then(_choose(offsets[half:])).otherwise(_choose(offsets[:half]))


@lru_cache(maxsize=2_000)
def _offsets_in(name: str, year: int) -> Sequence[tuple[int, int]]:
    """Return the offset with which a year in UTC begins, and each later one with its time.

    Within a day, the clocks change once at most, at a full second.
    """
    zone, begin = ZoneInfo(name), _midnight(date(year, 1, 1))
    known, last = _offset(zone, begin), _midnight(date(year, 12, 31))
    found = [(_microseconds(begin - EPOCH), _microseconds(known))]
    while begin <= last:
        end = begin + _DAY
        offset = _offset(zone, end)
        if offset != known:
            before, after = begin, end
            while after - before > _SECOND:
                middle = before + (after - before) // 2
                middle = middle.replace(microsecond=0)
                if middle == before:
                    middle += _SECOND
                before, after = (
                    (middle, after) if _offset(zone, middle) == known else (before, middle)
                )
            found.append((_microseconds(after - EPOCH), _microseconds(offset)))
            known = offset
        begin = end
    return found


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
