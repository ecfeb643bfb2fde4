"""Which files of an account's calls are merged next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from service.models.calls.call_files import DAY, IMPORT, MONTH
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


def ids(files: Sequence[File]) -> set[str]:
    return {file.id for file in files}


def test_a_closed_day_becomes_one_file() -> None:
    day = [on(before(1)), on(before(1)), on(before(1), 2)]
    other = [on(before(2)), on(before(2), DAY)]
    assert planned(*day, *other) == [ids(day), ids(other)]


def test_the_single_import_of_a_closed_day_is_stored_as_its_file() -> None:
    assert len(planned(on(before(1)))) == 1
    assert planned(on(before(1), DAY)) == []


def test_late_calls_wait_for_more() -> None:
    late = [on(before(1), created_at=NOW) for _ in range(5)]
    assert planned(on(before(1), DAY), *late) == []
    assert len(planned(on(before(1), DAY), *late, on(before(1), created_at=NOW))) == 1
    assert len(planned(on(before(1), DAY), *late, at_once=True)) == 1


def test_files_of_several_days_are_split_first() -> None:
    long = File(before(5), before(1), id="long")
    assert planned(long, on(before(3), DAY)) == [{"long"}]


def test_six_files_of_a_tier_of_an_open_day_become_one() -> None:
    assert planned(*(on(TODAY) for _ in range(5)), *(on(TODAY, 1) for _ in range(5))) == []
    six = [on(TODAY) for _ in range(6)]
    assert planned(*six, on(TODAY, 1)) == [ids(six)]
    assert Merge(six).level_of(TODAY, TODAY, NOW) == 1
    assert Merge([*six, on(TODAY, 3)]).level_of(TODAY, TODAY, NOW) == 4


def test_at_once_an_open_day_is_one_file_too() -> None:
    files = [on(TODAY), on(TODAY, 1)]
    assert planned(*files, at_once=True) == [ids(files)]
    assert planned(on(TODAY, 1), at_once=True) == []


def test_old_days_become_months() -> None:
    assert months_before(NOW) == date(2026, 9, 1)
    august = [on(date(2026, 8, day), DAY) for day in (1, 2, 31)]
    september = [on(date(2026, 9, 1), DAY)]
    assert planned(*august, *september) == [ids(august)]
    month = File(date(2026, 8, 1), date(2026, 8, 31), MONTH, id="month")
    assert planned(month, *september) == []
    assert Merge(august).level_of(date(2026, 8, 1), date(2026, 8, 31), NOW) == MONTH


def test_files_with_calls_of_a_replaced_reading_are_written_again() -> None:
    files = [on(before(3), DAY), on(before(2), DAY), on(TODAY, 1)]
    assert planned(*files, replaced=[(before(2), TODAY)]) == [{files[1].id}, {files[2].id}]


def test_new_files_of_a_day_whose_calls_were_deleted_do_not_wait_for_more() -> None:
    later = TODAY + timedelta(days=9)
    files = [on(TODAY), on(later), on(later)]
    assert planned(*files) == []
    assert planned(*files, replaced=[(later, date.max)]) == [{files[1].id, files[2].id}]


def test_more_calls_than_a_worker_can_merge_stay_in_several_files() -> None:
    large = [on(before(1), DAY, calls=plan.MAX_CALLS - 50) for _ in range(2)]
    assert planned(*large) == []
    small = on(before(1), calls=20)
    assert planned(*large, small) == [{small.id, large[0].id}]


def test_a_day_of_one_minute_batches_never_has_more_than_twenty_four_files() -> None:
    files: list[File] = []
    most = written = 0
    for _ in range(1_440):
        files.append(on(TODAY))
        while merges := list(plan_merges(files, NOW)):
            for merge in merges:
                level = merge.level_of(TODAY, TODAY, NOW)
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
