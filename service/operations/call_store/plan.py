"""Which files of an account to merge next.

A closed day becomes one file, sparse days share one, and after 60 days the calls join the file of
their month. The files of the open day are merged in tiers, six of a tier into one of the next, so
that each call is written a few times in all.

Calls that come later, or from the future, would rewrite these files again and again. They wait in
tiers of their own, and join the files of their days when they are many or when a call of them is
there already. So in files that were merged, but for those of the open day, each call is once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from detectors.contract import SPARSE_CALLS
from service.models.calls.call_files import DAY, FAN_IN, IMPORT, LATE, MONTH, QUIET

# Older days become months.
MONTHS_AFTER_DAYS: Final = 60
# More would not fit into the memory of a worker.
MAX_CALLS: Final = 5_000_000
# More would not be open at the same time; a day of one-minute batches has 1,440.
MAX_FILES: Final = 2_000
# Late calls join the files of their days when these have at most so many times as many.
LATE_SHARE: Final = 4

Days = tuple[date, date]
# Whether a file begins another list: after the files of this one, with so many calls together, and
# the last day of any before.
Begins = Callable[[Sequence["File"], int, date, "File"], bool]


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

    @property
    def has_new(self) -> bool:
        """Check whether calls may be among the merged files of their days already."""
        return any(file.level < LATE for file in self.files)

    @property
    def is_rewrite(self) -> bool:
        """Check whether one merged file is written again."""
        return len(self.files) == 1 and self.files[0].level > IMPORT

    def find_others(self, live: Iterable[File]) -> list[File]:
        """Return the other files that were merged and may have calls of the same days."""
        own = {file.id for file in self.files}
        spans = [(file.first_day, file.last_day) for file in self.files]
        return [
            file
            for file in live
            if file.level >= LATE
            and file.id not in own
            and any(_overlaps(file, span) for span in spans)
        ]

    def find_neighbors(self, live: Iterable[File], *, at_once: bool = False) -> list[File]:
        """Return merged files of the days beside: copies can be on both sides of midnight.

        Those of the open day, if all has to be merged at once.
        """
        own, day = {file.id for file in self.files}, timedelta(days=1)
        spans = [(file.first_day, file.last_day) for file in self.files]
        return [
            file
            for file in live
            if (file.level >= LATE or (at_once and file.level > IMPORT))
            and file.id not in own
            and any(_overlaps(file, (first - day, last + day)) for first, last in spans)
            and not any(_overlaps(file, span) for span in spans)
        ]

    def is_many_for(self, others: Iterable[File]) -> bool:
        """Check whether these calls are worth writing the other files again, which have room."""
        calls, of_others = (sum(file.calls for file in each) for each in (self.files, others))
        return calls * LATE_SHARE >= of_others and calls + of_others <= MAX_CALLS

    def level_of(self, days: Days, others: Iterable[File], now: datetime) -> int:
        """Return the level of a new file with calls of these days, beside the other files."""
        today = now.date()
        if days == (today, today):
            level = max((file.level for file in self.files if file.level < LATE), default=IMPORT)
            return min(level + 1, LATE - 1)
        if days[1] > today or any(file.level >= DAY and _overlaps(file, days) for file in others):
            level = max((file.level for file in self.files if file.level < DAY), default=LATE)
            return min(max(level + 1, LATE), DAY - 1)
        return MONTH if days[1] < months_before(now) else DAY


def _overlaps(file: File, days: Days) -> bool:
    return file.first_day <= days[1] and file.last_day >= days[0]


def months_before(now: datetime) -> date:
    """Return the day before which whole months become one file each."""
    return (now.date() - timedelta(days=MONTHS_AFTER_DAYS)).replace(day=1)


def plan_merges(
    files: Sequence[File],
    now: datetime,
    *,
    replaced: Sequence[Days] = (),
    deleted: Sequence[Days] = (),
    at_once: bool = False,
) -> Iterator[Merge]:
    """Yield the merges of an account's live files that are due; no file is in two of them.

    The merged files of days with calls of `replaced` imports are written again. So are those of
    days with `deleted` calls, until the new files of these days are merged, which don't wait for
    more. With `at_once`, none does.
    """
    today = now.date()
    again = {
        file.id
        for file in files
        if file.level > IMPORT and any(_overlaps(file, days) for days in (*replaced, *deleted))
    }
    yield from (Merge([file]) for file in files if file.id in again)
    others = [file for file in files if file.id not in again]
    merged = [file for file in others if file.level >= LATE]
    new = [file for file in others if file.level < LATE]
    open_day = [file for file in new if file.first_day == file.last_day == today]
    if open_day:
        is_deleted = any(_overlaps(open_day[0], days) for days in deleted)
        yield from _merge_open_day(open_day, at_once=at_once or is_deleted)
    # Sparse days together, in lists that a worker can merge.
    closed = (file for file in new if (file.first_day, file.last_day) != (today, today))
    in_order = sorted(closed, key=lambda file: (file.first_day, file.last_day, file.calls))
    for some in _cut(in_order, _begins_days):
        is_deleted = any(_overlaps(file, days) for file in some for days in deleted)
        if at_once or is_deleted or _is_due(some, now):
            yield Merge(some)
    months = defaultdict[date, list[File]](list)
    for file in merged:
        months[file.first_day.replace(day=1)].append(file)
    for month, own in months.items():
        if month < months_before(now) and any(file.level == DAY for file in own):
            parts = _by_size(own)
            yield from (Merge(part) for part in parts if len(part) > 1 or part[0].level == DAY)
        else:
            yield from _merge_month(own, today)


def _is_due(files: Sequence[File], now: datetime) -> bool:
    """Check whether calls are not those of the open day, and no more came for a while, or many."""
    new = [file for file in files if file.level == IMPORT]
    return (
        len(new) >= FAN_IN
        or any(file.first_day <= now.date() <= file.last_day for file in files)
        or all(file.created_at < now - QUIET for file in new)
    )


def _merge_open_day(files: Sequence[File], *, at_once: bool) -> Iterator[Merge]:
    if at_once:
        if len(files) > 1 or files[0].level == IMPORT:
            yield from map(Merge, _by_size(files))
        return
    for own in _by_level(files).values():
        if len(own) >= FAN_IN:
            yield from map(Merge, _by_size(own))


def _merge_month(files: Sequence[File], today: date) -> Iterator[Merge]:
    """Yield merges of files with the same days, of late calls that are many, and of small files."""
    used = set[str]()

    def merge(some: Sequence[File]) -> Merge:
        used.update(file.id for file in some)
        return Merge(some)

    finals = [file for file in files if file.level >= DAY]
    in_order = sorted(finals, key=lambda file: file.first_day)
    for same in _cut(in_order, lambda _some, _calls, last, file: file.first_day > last):
        # Files that have days in common, as earlier releases have left them.
        yield from (merge(part) for part in _by_size(same) if len(part) > 1)
    for late in (file for file in files if file.level < DAY and file.last_day < today):
        same = [file for file in finals if _overlaps(file, (late.first_day, late.last_day))]
        is_free = not used.intersection(file.id for file in same)
        if is_free and Merge([late]).is_many_for(same):
            yield merge([late, *same])
    rest = (file for file in files if file.id not in used)
    for alike in _by_level(rest, small=SPARSE_CALLS // FAN_IN).values():
        # Files of the same days, and files that are sparse together.
        alike.sort(key=lambda file: (file.first_day, file.last_day))
        yield from (Merge(some) for some in _cut(alike, _begins_sparse) if len(some) >= FAN_IN)


def _by_level(files: Iterable[File], small: int = 0) -> dict[int, list[File]]:
    """Group by level; small files of late calls are one group, whatever their level is."""
    levels: dict[int, list[File]] = defaultdict(list)
    for file in files:
        levels[LATE if LATE < file.level < DAY and file.calls <= small else file.level].append(file)
    return levels


def _by_size(files: Iterable[File]) -> Iterator[list[File]]:
    """Yield the files in lists that a worker can merge; a file that is too large is alone."""
    in_order = sorted(files, key=lambda file: file.calls)
    return _cut(in_order, lambda _some, calls, _last, _file: calls > MAX_CALLS)


def _cut(files: Iterable[File], begins: Begins) -> Iterator[list[File]]:
    """Yield the files in lists, in their order."""
    some, calls, last_day = list[File](), 0, date.min
    for file in files:
        if some and begins(some, calls + file.calls, last_day, file):
            yield some
            some, calls = [], 0
        some.append(file)
        calls, last_day = calls + file.calls, max(last_day, file.last_day)
    if some:
        yield some


def _begins_days(some: Sequence[File], calls: int, last_day: date, file: File) -> bool:
    is_full = calls > MAX_CALLS or len(some) == MAX_FILES
    return is_full or (file.first_day > last_day and calls > SPARSE_CALLS)


def _begins_sparse(some: Sequence[File], calls: int, _last_day: date, file: File) -> bool:
    is_same = _overlaps(file, (some[0].first_day, some[0].last_day))
    return calls > MAX_CALLS or not (is_same or calls <= SPARSE_CALLS)
