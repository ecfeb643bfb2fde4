"""`init(spool=…)`: records outlive the process that made them, and are sent once."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import capture
from tallystick.sending import spool as spools
from tallystick.sending import spooled
from tallystick.sending.spool import Spool
from tests.client.collector import Collector, Silent, refusing_dsn
from tests.client.environments import plain_environment
from tests.client.offline import capturing, record_calls
from tests.worker.support.promises import sampled
from tests.worker.support.waiting import wait_until

LINE = (
    '{"ts":"2026-10-01T00:00:00.000000Z","provider":"openai","model":"m",'
    '"prompt_tokens":1,"completion_tokens":1}'
)


class Once(Collector):
    """A service that takes each key once, as the real one does."""

    @property
    def answer_headers(self) -> dict[str, str]:
        """Take time between accepting a batch and saying so."""
        time.sleep(self.pause_seconds)
        return {}

    @answer_headers.setter
    def answer_headers(self, headers: dict[str, str]) -> None:
        self.pause_seconds = 0.0

    def __enter__(self) -> Once:
        return self

    def counts(self) -> Counter[int]:
        """Return how often each record counts, by its number of prompt tokens."""
        batches: dict[str, list[dict[str, Any]]] = {}
        keys = [request["Idempotency-Key"] for request in self.requests]
        for key, batch in zip(keys, self.batches, strict=True):
            batches.setdefault(key, batch)
            assert batches[key] == batch
        return Counter(each["prompt_tokens"] for batch in batches.values() for each in batch)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooled.SpooledDelivery, "_longest_wait", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _lines(folder: Path) -> list[str]:
    return [line for file in _files(folder) for line in file.read_text().splitlines()]


def test_records_are_on_disk_until_they_are_accepted(collector: Collector, folder: Path) -> None:
    with capturing(collector.dsn, spool=folder, tag="nightly"):
        record_calls(3)
        wait_until(lambda: len(_lines(folder)) == 3, 10)
        assert {oct(file.stat().st_mode & 0o777) for file in _files(folder)} == {"0o600"}
        assert folder.stat().st_mode & 0o777 == 0o700
        stats = tallystick.stats()
        assert (stats["captured"], stats["queued"], stats["dropped"]) == (3, 3, 0)
        lines = _lines(folder)
        assert tallystick.flush(5)
        assert [json.loads(line) for line in lines] == collector.records
        assert _files(folder) == []
        stats = tallystick.stats()
    assert (stats["sent"], stats["queued"], stats["spooled"], stats["dropped"]) == (3, 0, 0, 0)
    assert collector.problems == []


@pytest.mark.parametrize("status", [401, 402, 404, 429, 503])
def test_a_failure_that_may_pass_leaves_them_for_later(folder: Path, status: int) -> None:
    with Once(status) as collector, capturing(collector.dsn, spool=folder):
        record_calls(2)
        assert not tallystick.flush(5)
        stats = tallystick.stats()
        assert (stats["spooled"], stats["dropped"]) == (2, 0)
        assert stats["last_error"] == f"status {status}"
        record_calls(3)  # sent with the others, or paused
        assert not tallystick.flush(5)
        collector.status = 201
        collector.requests.clear()
        current = capture.active
        assert current is not None
        current.delivery._paused_until = 0
        record_calls(1)
        tallystick.flush(5)
        wait_until(lambda: tallystick.stats()["sent"] == 6, 10)
        stats = tallystick.stats()
        assert (stats["spooled"], stats["recovered"], stats["dropped"]) == (0, 0, 0)
        assert collector.counts() == {0: 3, 1: 2, 2: 1}
    assert _files(folder) == []


def test_a_batch_that_is_refused_is_dropped(folder: Path) -> None:
    with Collector(422) as collector, capturing(collector.dsn, spool=folder):
        record_calls(2)
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"status 422": 2}
    assert _files(folder) == []


def test_the_next_start_sends_what_is_left(folder: Path) -> None:
    with capturing(refusing_dsn(), spool=folder):
        record_calls(4)
        assert not tallystick.flush(5)
    often = {"spool": folder, "flush_interval": 0.1}  # the last client may still have it locked
    with Once() as collector, capturing(collector.dsn, **often):
        wait_until(lambda: tallystick.stats()["recovered"] == 4, 10)
        assert (tallystick.stats()["captured"], tallystick.stats()["sent"]) == (0, 0)
    assert collector.counts() == dict.fromkeys(range(4), 1)
    assert _files(folder) == []


def test_what_an_exit_has_no_time_for_is_on_disk(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    with Silent() as silent:
        monkeypatch.setenv("SERVICE_DSN", silent.dsn)
        monkeypatch.setattr(spooled.SpooledDelivery, "_longest_wait", 60)
        tallystick.init(spool=folder)
        record_calls(1)
        assert not tallystick.flush(0.1)  # its thread waits for the server from now on
        record_calls(2)
        tallystick.close(0.1)
    assert len(_lines(folder)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        '{"ts":"2026-10-01T00:00:00.0000',
        "\x00\x00\x00\x00\n",
        LINE.replace('"m"', '"m","prompt":"the canary sang"') + "\n",
        LINE.replace('"model":"m"', '"model":"the canary sang","model":"m"') + "\n",
        LINE.replace('"m"', '"m","status":["ok"]') + "\n",
        LINE.replace("2026-10-01", "2026-99-01") + "\n",
        LINE.replace("2026-10-01", "2026-02-30") + "\n",
        LINE.replace("T00:", "T24:") + "\n",
        "[]\n",
        "[" * 100_000 + "\n",
        "\xff\xfe\n",
    ],
)
def test_damaged_lines_are_skipped(collector: Collector, folder: Path, damage: str) -> None:
    folder.mkdir()
    (folder / "1.records").write_bytes(f"{LINE}\n{damage}".encode("latin-1"))
    (folder / "2.records").write_bytes(damage.encode("latin-1"))
    (folder / "3.records").write_bytes(b"")
    with capturing(collector.dsn, spool=folder):
        wait_until(lambda: not _files(folder), 10)
    assert collector.records == [json.loads(LINE)]
    assert b"canary" not in collector.bytes


def test_an_older_service_gets_the_first_version(folder: Path) -> None:
    with capturing(refusing_dsn(), spool=folder, environment="production"):
        record_calls(1)
        tallystick.flush(5)
    with Collector() as collector:
        collector.missing = {"/api/v2/ingest"}
        with capturing(collector.dsn, spool=folder, flush_interval=0.1):
            wait_until(lambda: tallystick.stats()["recovered"], 10)
    assert collector.records[-1]["tag"] == "production"
    assert "environment" not in collector.records[-1]


def test_the_folder_is_bounded_and_loses_its_oldest_first(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", 3_000)
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.records").write_text(f"{LINE}\n" * 5)
    with Silent() as silent, capturing(silent.dsn, spool=folder):
        record_calls(15)
        wait_until(lambda: len(_lines(folder)) > 15, 10)
        assert sum(file.stat().st_size for file in _files(folder)) <= 3_000


def test_a_disk_that_is_full_loses_nothing_while_the_process_lives(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, folder: Path
) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", 100)
    with capturing(collector.dsn, spool=folder):
        record_calls(7)
        wait_until(lambda: tallystick.stats()["queued"] == 7, 10)
        assert tallystick.flush(5)
        assert tallystick.stats()["sent"] == 7
    assert len(collector.records) == 7


def test_a_folder_that_is_removed_does_not_stop_sending(collector: Collector, folder: Path) -> None:
    with capturing(collector.dsn, spool=folder):
        record_calls(2)
        assert tallystick.flush(5)
        shutil.rmtree(folder)
        for _ in range(2):
            record_calls(3)
            assert tallystick.flush(5)
        assert tallystick.stats()["sent"] == 8


def test_a_folder_that_cannot_be_used_is_said_once(
    collector: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with capturing(collector.dsn, spool=tmp_path / "file"):
        record_calls(1)
        assert tallystick.flush(5)
    assert caplog.messages == [
        "init(spool=…) can't be used (FileExistsError); calls are captured without a spool"
    ]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_file_locks_has_no_spool(
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    collector: Collector,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such as a network disk; the locks of a process would not keep others out."""
    monkeypatch.setattr(fcntl, "flock", _fail(number))
    name = errno.errorcode[number]
    with capturing(collector.dsn, spool=folder):
        record_calls(2)
        assert tallystick.flush(5)
        assert (tallystick.stats()["sent"], tallystick.stats()["spool_error"]) == (2, name)
    assert caplog.messages == [
        f"init(spool=…) can't be used ({name}); calls are captured without a spool"
    ]
    assert _files(folder) == []


def test_locks_that_fail_later_stop_nothing(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, folder: Path
) -> None:
    with capturing(collector.dsn, spool=folder):
        monkeypatch.setattr(fcntl, "flock", _fail(errno.ENOLCK))
        record_calls(2)
        assert tallystick.flush(5)
        assert tallystick.stats()["sent"] == 2
    assert _files(folder) == []


def test_a_disk_that_is_full_at_the_start_may_have_space_later(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    with monkeypatch.context() as full:
        full.setattr(Spool, "_create", _fail(errno.ENOSPC))
        spool = Spool(str(folder))
    assert spool.append([LINE])


def test_segments_that_cannot_be_removed_are_sent_once_by_a_process(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, folder: Path
) -> None:
    """They belong to another user, or the disk has become read-only."""
    folder.mkdir()
    (folder / "1.records").write_text(f"{LINE}\n")
    often: dict[str, Any] = {"spool": folder, "flush_interval": 0.05}
    spool = Spool(str(folder))
    monkeypatch.setattr(Spool, "_try_locks", lambda spool: None)
    monkeypatch.setattr(os, "unlink", _fail(errno.EACCES))
    with capturing(collector.dsn, **often):
        wait_until(lambda: tallystick.stats()["recovered"] == 1, 10)
        record_calls(1)
        assert tallystick.flush(5)
    assert len(collector.records) == 2
    monkeypatch.setattr(spools, "MAX_BYTES", 1)
    assert not spool.append([LINE])


def test_a_writer_that_fails_is_counted(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, folder: Path
) -> None:
    with capturing(collector.dsn, spool=folder):
        current = capture.active
        assert current is not None
        monkeypatch.setattr(current.delivery, "_write_lines", _fail(errno.EIO))
        record_calls(2)
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"OSError": 2}


def _fail(number: int) -> Any:
    def fail(*arguments: Any, **named: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_counters_change_under_their_lock(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, folder: Path
) -> None:
    """The thread and whoever closes both change them."""
    unlocked: list[str] = []

    def store(delivery: Any, name: str, value: object) -> None:
        if name in ("_in_flight", "_sent", "_kept") and not delivery._counting._is_owned():
            unlocked.append(name)
        object.__setattr__(delivery, name, value)

    with capturing(collector.dsn, spool=folder):
        monkeypatch.setattr(spooled.SpooledDelivery, "__setattr__", store, raising=False)
        for status in (503, 422, 201):
            collector.status = status
            record_calls(2)
            tallystick.flush(5)
    assert len(collector.requests) > 2
    assert unlocked == []


def test_a_segment_belongs_to_one_process_at_a_time(folder: Path) -> None:
    first, second = Spool(str(folder)), Spool(str(folder))
    assert first.append([LINE])
    assert second.claim() is None
    (segment,) = first.take()
    segment.release()
    claimed = second.claim()
    assert claimed is not None
    assert claimed.read() == [LINE]
    assert first.claim() is None
    claimed.remove()
    claimed_again = first.claim()
    assert claimed_again is None


def test_a_segment_holds_one_batch(folder: Path) -> None:
    spool = Spool(str(folder))
    for _ in range(3):
        assert spool.append([LINE] * min(4_000, spool.room()))
    assert [segment.lines for segment in spool.take()] == [5_000, 4_000]


PROGRAM = """
import os, sys, time
import tallystick
from tallystick.sending.spooled import SpooledDelivery
SpooledDelivery._longest_wait = 0.05
tallystick.init(spool=sys.argv[1], flush_interval=float(sys.argv[2]))
number = int(sys.argv[3])
while True:
    tallystick.record(model="m", prompt_tokens=number, completion_tokens=1)
    print(number, time.monotonic(), flush=True)
    number += 1
    time.sleep(0.001)
"""
WRITTEN_SECONDS = 2.0  # the interval above, on a busy machine


@pytest.mark.parametrize("kills", sampled([1, 25], 2))
def test_killed_processes_lose_at_most_one_interval_and_nothing_counts_twice(
    folder: Path, kills: int
) -> None:
    """They are killed while they write, while they send, and beside one another."""
    made: dict[int, float] = {}
    ended: dict[int, float] = {}
    with Once() as collector:
        collector.pause_seconds = 0.03
        for kill in range(kills):
            pair = [_start(collector, folder, 1_000_000 * (2 * kill + at)) for at in (1, 2)]
            time.sleep(0.25 + 0.007 * kill)
            for process in pair:
                process.kill()
                at = time.monotonic()
                for line in process.communicate()[0].splitlines():
                    number, moment = line.split()
                    made[int(number)], ended[int(number)] = float(moment), at
        last = _start(collector, folder, 0)
        wait_until(lambda: len(_files(folder)) <= 1, 30)
        last.kill()
        last.communicate()
        counts = collector.counts()
    sent = {number for number in counts if number in made}
    assert {number: counts[number] for number in sent if counts[number] > 1} == {}
    lost = [ended[number] - made[number] for number in made if number not in sent]
    assert max(lost, default=0) < WRITTEN_SECONDS
    assert len(sent) > len(made) / 2
    keys = [request["Idempotency-Key"] for request in collector.requests]
    assert kills == 1 or len(keys) > len(set(keys))  # some were killed before they knew


def _start(collector: Collector, folder: Path, number: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), "0.1", str(number)],
        env=plain_environment(SERVICE_DSN=collector.dsn),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def test_a_forked_process_has_segments_of_its_own(collector: Collector, folder: Path) -> None:
    with capturing(collector.dsn, spool=folder):
        record_calls(2)
        wait_until(lambda: len(_lines(folder)) == 2, 10)
        current = capture.active
        assert current is not None
        child = os.fork()
        if not child:
            try:
                assert current.delivery.stats()["queued"] == 0
                current.delivery._write()  # type: ignore[attr-defined]
                tallystick.record(model="m", prompt_tokens=7, completion_tokens=1)
                current.delivery._write()  # type: ignore[attr-defined]
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert len(_files(folder)) == 2
        child_segment = Spool(str(folder)).claim()
        assert child_segment is not None
        assert [json.loads(line)["prompt_tokens"] for line in child_segment.read()] == [7]
        assert Spool(str(folder)).claim() is None  # the parent's is locked
        child_segment.release()
