"""`before_send` and a `file:` DSN: what exactly leaves, and how a program may change it."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tallystick
from detectors import read
from tallystick.sending.dsn import parse_dsn
from tallystick.sending.files import FileSender
from tallystick.sending.transport import Answer, write_lines
from tests.cases import data_of, each_case
from tests.client.collector import Collector
from tests.client.offline import capturing, record_calls

Json = dict[str, Any]
CANARY = "the canary sang"


def test_a_file_gets_exactly_what_would_leave(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, tmp_path: Path
) -> None:
    file = tmp_path / "with space.jsonl"
    call: Json = {"model": "gpt-5.5", "prompt_tokens": 7, "completion_tokens": 1, "latency_ms": 1.5}
    monkeypatch.setattr("time.time", lambda: 1_790_000_000.25)
    for dsn in (collector.dsn, file.as_uri()):
        with capturing(dsn, tag="nightly", environment="test"):
            assert tallystick.record(**call)
            assert tallystick.record(**call)
            assert tallystick.flush(5)
            assert tallystick.stats()["sent"] == 2
    body = '{"records":[' + ",".join(file.read_text().splitlines()) + "]}"
    assert body.encode() in collector.bytes
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(read(file).frame) == 2  # the library audits it


@each_case(
    ("text", "path"),
    [
        ("file:///tmp/a.jsonl", "/tmp/a.jsonl"),
        ("file://localhost/tmp/a%20b", "/tmp/a b"),
        ("file:/tmp/a", "/tmp/a"),
        ("file:a.jsonl", os.path.abspath("a.jsonl")),
        ("file:", None),
        ("file://", None),
        ("file:///", None),
        ("file://example.com/a", None),
    ],
)
def test_a_file_is_one_of_this_machine(text: str, path: str | None) -> None:
    destination = parse_dsn(text)
    assert (destination.file if destination else None) == path


def test_a_file_that_cannot_be_written_drops_records(tmp_path: Path) -> None:
    with capturing((tmp_path / "none" / "a").as_uri()):
        record_calls()
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"FileNotFoundError": 1}


def test_the_dsn_can_be_an_argument(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, tmp_path: Path
) -> None:
    monkeypatch.setenv("SERVICE_DSN", (tmp_path / "unused").as_uri())
    tallystick.init(dsn=collector.dsn)
    record_calls()
    assert tallystick.flush(5)
    tallystick.close(1)
    assert len(collector.records) == 1
    assert list(tmp_path.iterdir()) == []


def _sent(before_send: Callable[[Json], Json | None], **options: Any) -> tuple[list[Json], Json]:
    with Collector() as collector:
        with capturing(collector.dsn, before_send=before_send, **options):
            assert tallystick.record(
                model="gpt-5.5", prompt_tokens=7, completion_tokens=1, tag="own", session_id="s",
                prefix_hash="a" * 64, latency_ms=3.0,
            )  # fmt: skip
            tallystick.flush(5)
            stats = tallystick.stats()
        assert collector.problems == []
        assert CANARY.encode() not in collector.bytes
        return collector.records, stats


def test_labels_can_be_changed_and_removed() -> None:
    def relabel(record: Json) -> Json:
        del record["session_id"], record["prefix_hash"]
        return {**record, "tag": "ours", "environment": "test", "model": "m", "provider": "azure"}

    ((record,), stats) = _sent(relabel)
    assert "session_id" not in record
    assert "prefix_hash" not in record
    assert [record[name] for name in ("tag", "environment", "model", "provider")] == [
        *("ours", "test", "m", "azure")
    ]
    assert (record["prompt_tokens"], record["latency_ms"]) == (7, 3.0)
    assert stats["dropped"] == 0


def test_none_drops_a_record(tmp_path: Path) -> None:
    for options in ({}, {"spool": tmp_path / "spool"}):
        records, stats = _sent(lambda record: None, **options)
        assert records == []
        assert stats["dropped_by_reason"] == {"before_send": 1}


def test_what_it_does_not_change_is_sent_as_it_is() -> None:
    ((record,), _) = _sent(lambda record: record)
    assert record["tag"] == "own"


@pytest.mark.parametrize("spool", [False, True])
def test_a_file_that_is_cut_off_counts_what_is_whole_in_it(spool: bool, tmp_path: Path) -> None:
    """A limit of the system ends the write in the middle, as a full disk does."""
    file = tmp_path / "usage.jsonl"
    lines = [f'{{"number":{number}}}' for number in range(10)]
    sender = FileSender(str(file), lambda records: lines)

    def send() -> Answer:
        return sender.send_lines(lines) if spool else sender.send([])

    with _file_size(3 * 13 + 5):
        assert send() == (3, 0.0, "OSError", False)
        assert send() == (0, 0.0, "OSError", True)
    assert send().taken == 10
    assert file.read_text().splitlines() == [*lines[:3], lines[3][:5], *lines]


def test_a_write_in_two_parts_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write, file = os.write, tmp_path / "usage.jsonl"
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[:5]))
    sender = FileSender(str(file), write_lines)
    assert sender.send_lines(["one", "three"]).taken == 2
    assert file.read_text() == "one\nthree\n"
    monkeypatch.setattr(os, "write", lambda to, data: 0)
    assert sender.send_lines(["one"]) == (0, 0.0, "OSError", True)


def test_a_writer_that_fails_drops_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(records: list[Any]) -> list[str]:
        raise LookupError

    monkeypatch.setattr("tallystick.sending.transport.write_lines", fail)
    with capturing((tmp_path / "usage.jsonl").as_uri()):
        record_calls(2)
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped_by_reason"] == {"LookupError": 2}
        record_calls(1)
        assert not tallystick.flush(5)
        assert tallystick.stats()["dropped"] == 3


@contextmanager
def _file_size(limit: int) -> Iterator[None]:
    """Let no file of this process become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("change", data_of(__file__)["changes"])
def test_nothing_else_can_be_added_or_changed(change: Json) -> None:
    records, stats = _sent(lambda record: {**record, **change})
    assert records == []
    assert stats["dropped_by_reason"] == {"before_send": 1}


@each_case("returned", [[], "text", 7, {}, {"tag": CANARY}])
def test_what_is_no_record_is_not_sent(returned: Any) -> None:
    assert _sent(lambda record: returned)[0] == []


def test_an_error_drops_the_record_and_not_the_program(caplog: pytest.LogCaptureFixture) -> None:
    def fail(record: Json) -> Json:
        raise KeyError(CANARY)

    records, stats = _sent(fail, debug=True)
    assert records == []
    assert stats["dropped"] == 1
    assert "before_send: a record was dropped: KeyError" in caplog.messages
    assert CANARY not in caplog.text
