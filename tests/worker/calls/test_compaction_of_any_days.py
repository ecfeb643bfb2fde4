"""Compaction of batches of any days, at any time: each call is once in the files that it leaves."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, cast

import pytest
from sqlalchemy import Engine

import detectors
from detectors.contract import MergedCalls
from detectors.report import account
from detectors.report.account import call_files
from service.core.blobs import BlobStore
from service.models.calls.call_files import DAY, FAN_IN, IMPORT, LATE
from service.operations.call_store import compaction, plan
from service.operations.call_store.compaction import Compaction, FilesChangedError
from tests.worker.support.promises import at_a_sixth, sampled, scaled

START = datetime(2026, 9, 20, 10, tzinfo=UTC)
SPARSE = 40
LATE_CALLS = 40
_ids = count()


@dataclass(frozen=True)
class File:
    id: str
    blob_key: str
    level: int
    import_id: str | None
    first_day: date
    last_day: date
    calls: int
    duplicates: int
    created_at: datetime


def merge(files: Sequence[tuple[BinaryIO, str | None]], **options: Any) -> Iterator[MergedCalls]:
    """Merge as `merge_stored` does, without spend."""
    frames = [account.read_calls(file, import_id) for file, import_id in files]
    for merged in account.merge_files(frames, **options):
        content = BytesIO()
        account.write_calls(merged.frame, content)
        yield MergedCalls(
            first_day=merged.first_day,
            last_day=merged.last_day,
            content=content.getvalue(),
            calls=merged.frame.height,
            duplicates=merged.duplicates,
            imports=len(merged.imports),
            spend=(),
            priced_with="",
            rates="",
        )


class Store(Compaction):
    """A compaction whose catalog is a list, and its clock a field."""

    def __init__(self, blobs: BlobStore) -> None:
        engine, find_repeated = cast(Engine, None), account.find_repeated_calls
        super().__init__(engine, blobs, "account", merge, find_repeated, lambda: self.clock[0])
        self.__dict__.update(files=[], clock=[START], written=[0])

    files: list[File]
    clock: list[datetime]
    written: list[int]

    def add(self, calls: Sequence[dict[str, Any]]) -> None:
        frame, content, name = detectors.read(calls).frame, BytesIO(), f"import-{next(_ids)}"
        frame.write_parquet(content)
        self.blobs.put(f"frames/{name}.parquet", content.getvalue())
        days = frame["ts"].dt.date().sort()
        key = f"frames/{name}.parquet"
        new = File(name, key, IMPORT, name, days[0], days[-1], frame.height, 0, self.clock[0])
        self.files.append(new)

    def _transact(self, query: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        return list(self.files) if query.__name__ == "list_live" else ()

    @contextmanager
    def _only_one(self, *, is_patient: bool) -> Iterator[bool]:
        yield True

    def change(self, _engine: Engine, change: Any) -> None:
        if change.func is not compaction._replace:
            return
        old = {file.id for file in change.keywords["due"].files}
        if not old <= {file.id for file in self.files}:
            raise FilesChangedError
        self.files[:] = [file for file in self.files if file.id not in old]
        for row, _ in change.keywords["new"]:
            own = {name: row[name] for name in File.__annotations__ if name != "created_at"}
            self.files.append(File(**own, created_at=self.clock[0]))
            self.written[0] += row["calls"]

    def read_all(self) -> list[str]:
        found = list[str]()
        for file in self.files:
            with self.blobs.open(file.blob_key) as stored:
                calls = account.read_calls(stored)
            assert calls.height == file.calls
            days = calls["ts"].dt.date()
            assert (days.min(), days.max()) == (file.first_day, file.last_day)
            found += calls["request_id"].to_list()
        return sorted(found)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store(BlobStore.from_url(tmp_path.as_uri()))
    monkeypatch.setattr(compaction, "transact", made.change)
    for module in (plan, call_files):
        monkeypatch.setattr(module, "SPARSE_CALLS", SPARSE)
    return made


def call(number: int, ts: datetime) -> dict[str, Any]:
    return {
        "ts": ts.isoformat(),
        "provider": "openai",
        "model": "gpt-4o",
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "request_id": str(number),
    }


def draw_day(random: Random, now: datetime) -> datetime:
    """Return a time of today, of the last days, of long ago, or of the future."""
    days = random.choice([0, 0, 0, -1, -2, random.randint(-20, 0), random.randint(-200, 60)])
    return now + timedelta(days=days, seconds=random.randint(-3_600, 0))


@pytest.mark.parametrize("seed", sampled(range(20), 20))
@at_a_sixth
def test_batches_of_any_days_in_any_order_are_stored_once(
    share: float, seed: int, store: Store
) -> None:
    """Some are sent again, weeks later. Compaction always ends; all seeds in `make stress`."""
    random, sent = Random(seed), list[dict[str, Any]]()
    for _ in range(scaled(60, share)):
        store.clock[0] += timedelta(hours=random.choice([0, 1, 1, 6, 30, 200]))
        new = [
            call(len(sent) + number, draw_day(random, store.clock[0]))
            for number in range(random.choice([1, 2, 5, 60]))
        ]
        sent += new
        store.add(new + random.sample(sent, k=min(len(sent), random.choice([0, 0, 1, 9]))))
        at_once = random.random() < 0.3
        if at_once or random.random() < 0.5:
            store.run(at_once=at_once)
        expected = sorted(each["request_id"] for each in sent)
        assert set(store.read_all()) == set(expected)
        if at_once:
            assert store.read_all() == expected
            assert all(file.level > IMPORT for file in store.files)
    store.clock[0] += timedelta(days=300)
    store.run(at_once=True)
    months = {each["ts"][:7] for each in sent}
    assert len(store.files) <= FAN_IN * len(months)
    assert store.read_all() == sorted(each["request_id"] for each in sent)


def test_late_calls_rewrite_a_small_part_of_their_days(store: Store) -> None:
    """40 late calls of 10 days with 200 calls each rewrite eight calls each at most, not 200."""
    days = [START - timedelta(days=days) for days in range(1, 11)]
    for day in days:
        store.add([call(next(_ids), day + timedelta(seconds=n)) for n in range(SPARSE * 5)])
    store.run(at_once=True)
    stored = store.written[0]
    assert stored == SPARSE * 5 * len(days)
    random = Random(1)
    for _ in range(LATE_CALLS):
        store.clock[0] += timedelta(minutes=11)
        store.add([call(next(_ids), random.choice(days))])
        store.run()
    assert store.written[0] - stored <= LATE_CALLS * 8
    late = [file for file in store.files if LATE <= file.level < DAY]
    assert sum(file.calls for file in late) <= LATE_CALLS
    assert len(store.read_all()) == stored + LATE_CALLS
