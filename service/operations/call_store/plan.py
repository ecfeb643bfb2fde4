"""Which files of an account to merge next.

A closed day becomes one file, and after 60 days its calls join the file of their month. The files
of the open day are merged in tiers, six of a tier into one of the next, so that each call is
written a few times in all.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from service.models.calls.call_files import DAY, FAN_IN, IMPORT, MONTH, QUIET

# Older days become months.
MONTHS_AFTER_DAYS: Final = 60
# More would not fit into the memory of a worker.
MAX_CALLS: Final = 5_000_000

Days = tuple[date, date]


class File(Protocol):
    """A row of the catalog."""

    id: str
    blob_key: str
    level: int
    import_id: str | None
    first_day: date
    last_day: date
    calls: int
    duplicates: int
    created_at: datetime


@dataclass(frozen=True)
class Merge:
    """Files that become one file per day or month."""

    files: Sequence[File]

    def level_of(self, first_day: date, last_day: date, now: datetime) -> int:
        """Return the level of a new file with calls of these days."""
        if last_day < months_before(now):
            return MONTH
        if last_day < now.date():
            return DAY
        return 1 + max((file.level for file in self.files if file.level < DAY), default=IMPORT)


def months_before(now: datetime) -> date:
    """Return the day before which whole months become one file each."""
    return (now.date() - timedelta(days=MONTHS_AFTER_DAYS)).replace(day=1)


def plan_merges(
    files: Sequence[File], now: datetime, *, replaced: Sequence[Days] = (), at_once: bool = False
) -> Iterator[Merge]:
    """Yield the merges that are due; no file is in two of them.

    Parameters
    ----------
    files : sequence of File
        The live files of an account.
    now : datetime
        In UTC.
    replaced : sequence of (date, date)
        Days with calls of imports that were replaced, or that were deleted: their files are
        written again.
    at_once : bool
        Merge all that can be merged, without waiting for more.
    """
    spread = [file for file in files if file.first_day != file.last_day and file.level != MONTH]
    yield from map(Merge, _by_size(spread))
    others = [file for file in files if file not in spread]
    periods: dict[date, list[File]] = defaultdict(list)
    for file in others:
        periods[_period(file.first_day, now)].append(file)
    for period, own in periods.items():
        is_replaced = any(_overlaps(file, days) for file in own for days in replaced)
        if is_replaced:
            yield from map(Merge, _by_size(own))
        elif period >= now.date():
            yield from _merge_open_day(own, at_once=at_once)
        elif at_once or _is_quiet(own, now):
            level = MONTH if period < months_before(now) else DAY
            parts = _by_size(own)
            yield from (Merge(part) for part in parts if len(part) > 1 or part[0].level < level)


def _period(day: date, now: datetime) -> date:
    """Return the first day of the month or day whose calls belong in one file."""
    month = day.replace(day=1)
    return month if month < months_before(now) else day


def _overlaps(file: File, days: Days) -> bool:
    return file.first_day <= days[1] and file.last_day >= days[0]


def _is_quiet(files: Sequence[File], now: datetime) -> bool:
    """Check whether no more calls of a closed period came for a while, or very many did."""
    new = [file for file in files if file.level == IMPORT]
    return len(new) >= FAN_IN or all(file.created_at < now - QUIET for file in new)


def _merge_open_day(files: Sequence[File], *, at_once: bool) -> Iterator[Merge]:
    if at_once:
        if len(files) > 1 or files[0].level == IMPORT:
            yield from map(Merge, _by_size(files))
        return
    tiers: dict[int, list[File]] = defaultdict(list)
    for file in files:
        tiers[file.level].append(file)
    for own in tiers.values():
        if len(own) >= FAN_IN:
            yield from map(Merge, _by_size(own))


def _by_size(files: Iterable[File]) -> Iterator[list[File]]:
    """Yield the files in lists that a worker can merge; a file that is too large is alone."""
    some, calls = list[File](), 0
    for file in sorted(files, key=lambda file: file.calls):
        if some and calls + file.calls > MAX_CALLS:
            yield some
            some, calls = [], 0
        some.append(file)
        calls += file.calls
    if some:
        yield some
