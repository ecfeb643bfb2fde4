"""Days in a time zone: how far they are from the days in UTC, exactly, whatever the clocks do."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, cast
from zoneinfo import ZoneInfo

import polars as pl

from detectors.report.counting.projection import DAY_US, EPOCH

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)


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
    times = [frame["ts"] for frame in frames if frame.height]
    first = min(cast(datetime, each.min()) for each in times)
    last = max(cast(datetime, each.max()) for each in times)
    offset = pl.lit(0)
    for number, (start, us) in enumerate(_offsets(ZoneInfo(zone), first, last)):
        changed = pl.col("at_us") >= start
        offset = pl.when(changed).then(us).otherwise(offset) if number else pl.lit(us)
    local = pl.col("at_us") + offset
    return (local // DAY_US - pl.col("at_us") // DAY_US).cast(pl.Int64)


def _offsets(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[tuple[int, int]]:
    """Yield the offset at the first time, and each later one with the time from which it applies.

    All in microseconds. Within a day, the clocks change once at most, at a full second.
    """
    begin = first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    known = _offset(zone, begin)
    yield _microseconds(begin - EPOCH), _microseconds(known)
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
            yield _microseconds(after - EPOCH), _microseconds(offset)
            known = offset
        begin = end


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
