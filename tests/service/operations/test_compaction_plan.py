"""Which files of an account's calls are merged next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from detectors.contract import SPARSE_CALLS
from service.models.calls.call_files import DAY, IMPORT, LATE, MONTH
from service.operations.call_store import plan
from service.operations.call_store.plan import Merge, months_before, plan_merges

NOW = datetime(2026, 11, 22, 15, tzinfo=UTC)
TODAY = NOW.date()
LONG_AGO = NOW - timedelta(hours=1)
_ids = count()


@dataclass(eq=False)
class File:
    first_day: date
    last_day: date
    level: int = IMPORT
    created_at: datetime = LONG_AGO
    calls: int = 100
    id: str = ""
    blob_key: str = ""
    import_id: str | None = None
    duplicates: int = 0


def on(day: date, level: int = IMPORT, **fields: Any) -> File:
    return File(day, day, level, id=str(next(_ids)), **fields)


def before(days: int) -> date:
    return TODAY - timedelta(days=days)


def planned(*files: File, **options: Any) -> list[set[str]]:
    merges = plan_merges(files, NOW, **options)
    return [{file.id for file in merge.files} for merge in merges]


def level_of(merge: Merge, first: date, last: date, *others: File) -> int:
    return merge.level_of((first, last), others, NOW)


def ids(files: Sequence[File]) -> set[str]:
    return {file.id for file in files}


def test_a_closed_day_becomes_one_file_with_its_late_calls() -> None:
    day = [on(before(1)), on(before(1)), on(before(1), 2, calls=SPARSE_CALLS)]
    other = [on(before(2)), on(before(2), calls=SPARSE_CALLS)]
    assert planned(*day, *other) == [ids(other), ids(day)]
    assert level_of(Merge(day), before(1), before(1)) == DAY
    # The single import of a closed day is stored as its file.
    assert len(planned(on(before(1)))) == 1
    assert planned(on(before(1), DAY)) == []
    # Late calls wait for more.
    late = [on(before(1), created_at=NOW) for _ in range(5)]
    final = on(before(1), DAY, calls=SPARSE_CALLS)
    assert planned(final, *late) == []
    six = [*late, on(before(1), created_at=NOW)]
    assert planned(final, *six) == [ids(six)]
    assert planned(final, *late, at_once=True) == [ids(late)]
    assert level_of(Merge(six), before(1), before(1), final) == LATE
    # Late calls join their day when they are many.
    final = on(before(1), DAY, calls=SPARSE_CALLS)
    few = [on(before(1), LATE, calls=SPARSE_CALLS // 4 - 1)]
    assert planned(final, *few) == []
    many = [on(before(1), LATE, calls=SPARSE_CALLS // 4)]
    assert planned(final, *many) == [ids([final, *many])]
    assert level_of(Merge([final, *many]), before(1), before(1)) == DAY


def test_late_calls_that_are_there_already_are_looked_for_in_files_of_their_days() -> None:
    late = Merge([File(before(5), before(3), id="late")])
    day, same, other = on(before(4), DAY), on(before(3), LATE), on(before(2), DAY)
    waiting, month = on(before(4)), File(before(90), before(70), MONTH, id="month")
    assert late.has_new
    assert late.find_others([day, same, other, waiting, month, *late.files]) == [day, same]
    assert not Merge([day, same]).has_new


def test_merged_files_of_the_days_beside_may_have_copies_of_calls_at_midnight() -> None:
    new = Merge([on(before(3)), on(before(2))])
    early, late, far = on(before(4), DAY), on(before(1), DAY), on(before(5), DAY)
    same, waiting = on(before(2), DAY), on(before(1))
    assert new.find_neighbors([early, late, far, same, waiting, *new.files]) == [early, late]


def test_before_an_audit_so_may_those_of_the_open_day() -> None:
    new = Merge([on(before(1))])
    merged, waiting = on(TODAY, IMPORT + 1), on(TODAY)
    assert new.find_neighbors([merged, waiting]) == []
    assert new.find_neighbors([merged, waiting], at_once=True) == [merged]


def test_six_files_of_late_calls_become_one() -> None:
    finals = [on(before(days), DAY, calls=SPARSE_CALLS) for days in (1, 2, 3)]
    late = [on(before(1 + number % 3), LATE) for number in range(6)]
    assert planned(*finals, *late[:5]) == []
    assert planned(*finals, *late) == [ids(late)]
    assert level_of(Merge(late), before(3), before(1), *finals) == LATE + 1


def test_calls_of_the_future_wait_in_one_file_until_their_day() -> None:
    future = [on(TODAY + timedelta(days=days)) for days in range(1, 100)]
    assert planned(*future) == [ids(future)]
    first, last = future[0].first_day, future[-1].last_day
    assert level_of(Merge(future), first, last) == LATE
    waiting = File(first, last, LATE, id="waiting")
    assert planned(waiting) == planned(waiting, at_once=True) == []
    passed = File(before(3), before(2), LATE, id="passed")
    assert planned(passed) == [{"passed"}]
    assert level_of(Merge([passed]), before(3), before(2)) == DAY


def test_sparse_days_share_a_file_and_old_days_become_months() -> None:
    days = [on(before(days), DAY) for days in (6, 5, 4, 3, 2, 1)]
    assert planned(*days[:5]) == []
    assert planned(*days) == [ids(days)]
    dense = [on(before(days), DAY, calls=SPARSE_CALLS // 5) for days in (6, 5, 4, 3, 2, 1)]
    assert planned(*dense) == []
    # Days in several files of an earlier release become one.
    day = [on(before(1), DAY, calls=SPARSE_CALLS) for _ in range(2)]
    assert planned(*day, on(before(2), DAY, calls=SPARSE_CALLS)) == [ids(day)]
    # Files of several days are merged at once if they have calls of today.
    long = File(before(5), TODAY, id="long", created_at=NOW)
    other = on(before(3), created_at=NOW)
    assert planned(other) == []
    assert planned(long, other) == [{long.id, other.id}]
    # Six files of a tier of an open day become one.
    assert planned(*(on(TODAY) for _ in range(5)), *(on(TODAY, 1) for _ in range(5))) == []
    six = [on(TODAY) for _ in range(6)]
    assert planned(*six, on(TODAY, 1)) == [ids(six)]
    assert level_of(Merge(six), TODAY, TODAY) == 1
    assert level_of(Merge([*six, on(TODAY, 3)]), TODAY, TODAY) == 4
    # At once an open day is one file too.
    files = [on(TODAY), on(TODAY, 1)]
    assert planned(*files, at_once=True) == [ids(files)]
    assert planned(on(TODAY, 1), at_once=True) == []
    # Old days become months.
    assert months_before(NOW) == date(2026, 9, 1)
    august = [on(date(2026, 8, day), DAY) for day in (1, 2, 31)]
    september = [on(date(2026, 9, 1), DAY)]
    assert planned(*august, *september) == [ids(august)]
    month = File(date(2026, 8, 1), date(2026, 8, 31), MONTH, id="month")
    assert planned(month, *september) == []
    assert level_of(Merge(august), date(2026, 8, 1), date(2026, 8, 31)) == MONTH


def test_replaced_readings_and_deletions_are_written_once() -> None:
    files = [on(before(3), DAY), on(before(2), DAY), on(TODAY, 1)]
    assert planned(*files, replaced=[(before(2), TODAY)]) == [{files[1].id}, {files[2].id}]
    # A deletion whose day has come is done once.
    # While new files of the open day wait, its merged files would be written again and again.
    merged, new = on(TODAY, 1), on(TODAY, created_at=NOW)
    assert planned(merged, new) == []
    assert planned(merged, new, deleted=[(TODAY, date.max)]) == [{merged.id}, {new.id}]


def test_new_files_of_a_day_whose_calls_were_deleted_do_not_wait_for_more() -> None:
    later = TODAY + timedelta(days=9)
    files = [on(TODAY), on(later, created_at=NOW), on(later, created_at=NOW)]
    assert planned(*files) == []
    assert planned(*files, deleted=[(later, date.max)]) == [{files[1].id, files[2].id}]


def test_more_calls_than_a_worker_can_merge_stay_in_several_files() -> None:
    large = [on(before(1), DAY, calls=plan.MAX_CALLS - 50) for _ in range(2)]
    assert planned(*large) == []
    small = on(before(1), calls=20)
    assert planned(*large, small) == [{small.id}]
    days = [on(before(days), calls=plan.MAX_CALLS) for days in (1, 2)]
    assert planned(*days) == [{days[1].id}, {days[0].id}]


def test_a_day_of_one_minute_batches_never_has_more_than_twenty_four_files() -> None:
    files: list[File] = []
    most = written = 0
    for _ in range(1_440):
        files.append(on(TODAY))
        while merges := list(plan_merges(files, NOW)):
            for merge in merges:
                level = level_of(merge, TODAY, TODAY)
                files = [file for file in files if file not in merge.files]
                calls = sum(file.calls for file in merge.files)
                files.append(on(TODAY, level, calls=calls))
                written += calls
        most = max(most, len(files))
    assert most <= 24
    assert sum(file.calls for file in files) == 144_000
    assert written <= 4 * 144_000
    tomorrow = [replace(file, first_day=before(1), last_day=before(1)) for file in files]
    assert planned(*tomorrow) == [ids(tomorrow)]
