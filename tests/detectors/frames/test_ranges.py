"""Large files read by several processes: the same as read by one, whatever becomes of workers."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from detectors.errors import ContractError, UnreadableLogError
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.text.splitting import MAX_LINE_BYTES
from detectors.frames import UsageLog, range_workers, ranges, read, sources
from tests.worker.support.promises import at_both_scales, sampled

LINE: dict[str, Any] = {
    "created": 1_767_225_600,
    "model": "gpt-5.4",
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
RANGE_BYTES = 4_096

Line = dict[str, Any] | bytes


def write(path: Path, lines: list[Line], start: bytes = b"", end: bytes = b"\n") -> Path:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(start + b"\n".join(texts) + end)
    return path


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes count as large, and have many ranges."""
    monkeypatch.setattr(sources, "PARALLEL_BYTES", RANGE_BYTES)
    monkeypatch.setattr(sources, "RANGE_BYTES", RANGE_BYTES)


def numbered(count: int) -> list[Line]:
    """Valid lines of all lengths, invalid ones and blank ones, in a known order."""
    lines: list[Line] = [LINE | {"tag": "x" * (n % 90), "id": f"req_{n}"} for n in range(count)]
    lines[50::100] = [LINE | {"model": n} for n in range(len(lines[50::100]))]
    lines[60::100] = [b"not JSON"] * len(lines[60::100])
    lines[70::100] = [b""] * len(lines[70::100])
    return lines


def same(first: UsageLog, second: UsageLog) -> bool:
    return (
        first.frame.equals(second.frame)
        and first.rows == second.rows
        and first.invalid == second.invalid
    )


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("processes", sampled([2, 3], 2))
@pytest.mark.parametrize(
    ("start", "end"), [(b"", b"\n"), (b"\xef\xbb\xbf", b""), (b"\n\n", b"\n\n \n")]
)
def test_several_processes_give_the_same_result_as_one(
    tmp_path: Path, processes: int, start: bytes, end: bytes
) -> None:
    path = write(tmp_path / "log.jsonl", numbered(3_000), start, end)
    log = read(path, processes=processes)
    assert same(log, read(path, processes=1))
    assert log.rows == 2_970
    assert log.frame["request_id"][:2].to_list() == ["req_0", "req_1"]


@pytest.mark.usefixtures("small_ranges")
def test_a_line_longer_than_a_range_is_read_once(tmp_path: Path) -> None:
    lines = numbered(200)
    lines[100] = json.dumps(LINE).encode().replace(b"{", b"{" + b" " * 5 * RANGE_BYTES, 1)
    path = write(tmp_path / "log.jsonl", lines)
    assert same(read(path, processes=2), read(path, processes=1))


@at_both_scales
def test_ranges_are_the_same_wherever_they_are_cut(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "log.jsonl", numbered(12), end=b"")
    expected = read(path).frame
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for width in range(1, size + 1, round(7 / share)):
            cut = ranges.Ranges(file.fileno(), 0, size, OPENAI, width)
            parts = [cut.read(index).frame for index in range(cut.count)]
            assert pl.concat(parts).equals(expected), width


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("bad", sampled([10, 1, 7, 11, 2_000], 3))
def test_a_broken_contract_gives_the_same_message(tmp_path: Path, bad: int) -> None:
    lines = numbered(2_500)
    lines[400 : 400 + bad] = [LINE | {"content": "CANARY"}] * bad
    path = write(tmp_path / "log.jsonl", lines)
    messages = []
    for processes in (1, 2):
        with pytest.raises(ContractError) as caught:
            read(path, processes=processes)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith("Contains fields we never accept (content) on line")
    assert ("and more" in messages[0]) == (bad > 10)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("before", [0, 1, 11])
def test_a_line_that_is_too_long_gives_the_same_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(sources, "RANGE_BYTES", 1 << 20)
    lines = numbered(500)
    lines[100 : 100 + before] = [LINE | {"content": "CANARY"}] * before
    lines[400] = b" " * (MAX_LINE_BYTES + (3 << 20))
    path = write(tmp_path / "log.jsonl", lines)
    for processes in (1, 2):
        with pytest.raises(ContractError if before else UnreadableLogError):
            read(path, processes=processes)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("name", ["array", "csv", "gzip", "text"])
def test_a_format_without_ranges_is_read_by_one_process(tmp_path: Path, name: str) -> None:
    examples: dict[str, Callable[[], bytes]] = {
        "array": lambda: json.dumps([LINE] * 200).encode(),
        "csv": lambda: (
            b"ts,provider,model,prompt_tokens,completion_tokens\n"
            + b"2026-01-01,openai,gpt-5.4,10,2\n" * 200
        ),
        "gzip": lambda: gzip.compress(json.dumps(LINE).encode() + b"\n") * 200,
        "text": lambda: b"the customer said\n" * 1_000,
    }
    path = tmp_path / "log"
    path.write_bytes(examples[name]())
    if name == "text":
        with pytest.raises(UnreadableLogError):
            read(path, processes=2)
    else:
        assert same(read(path, processes=2), read(path, processes=1))


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(
    "boot",
    [
        "raise SystemExit(1)",
        "import sys; sys.stdout.write('CANARY'); sys.exit(3)",
        "import json, os, sys; os.read(json.loads(sys.argv[1])['tickets'], 8)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import time; time.sleep(600)",
    ],
)
def test_workers_that_fail_only_cost_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    monkeypatch.setattr(range_workers, "BOOT", boot)
    monkeypatch.setattr(range_workers, "WORKER_TIMEOUT_SECONDS", 0.5)
    path = write(tmp_path / "log.jsonl", numbered(1_000))
    assert same(read(path, processes=2), read(path, processes=1))


@pytest.mark.usefixtures("small_ranges")
def test_workers_that_cannot_start_only_cost_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    path = write(tmp_path / "log.jsonl", numbered(1_000))
    assert same(read(path, processes=2), read(path, processes=1))


@pytest.mark.usefixtures("small_ranges")
def test_a_worker_returns_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "log.jsonl", numbered(1_000))
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        cut = ranges.Ranges(file.fileno(), 0, size, OPENAI, RANGE_BYTES)
        with range_workers.RangeWorkers(cut, 1) as workers:
            results = workers.results()
        assert sorted(results) == list(range(cut.count))
        assert all(results[index].frame.equals(cut.read(index).frame) for index in results)


@pytest.mark.usefixtures("small_ranges")
def test_progress_ends_at_the_size(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", numbered(1_000))
    size = path.stat().st_size
    heard: list[tuple[int, int]] = []
    read(path, processes=2, progress=lambda done, total: heard.append((done, total)))
    assert heard == sorted(heard)
    assert heard[-1] == (size, size)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("is_uniform", [True, False])
def test_few_ranges_are_in_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_uniform: bool
) -> None:
    path = write(tmp_path / "log.jsonl", [LINE] * 1_000 if is_uniform else numbered(1_000))
    whole = read(path, processes=1)
    monkeypatch.setattr(range_workers, "RANGES_AT_ONCE", 3)
    assert same(read(path, processes=2), whole)
    heard: list[int] = []
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        cut = ranges.Ranges(file.fileno(), 0, size, OPENAI, RANGE_BYTES)
        assert cut.count > 6
        assert next(range_workers.read_ranges(cut, 1, heard.append)).notes.index == 0
    assert max(heard, default=0) <= 3 * RANGE_BYTES


@pytest.mark.usefixtures("small_ranges")
def test_a_forked_process_reads_in_parallel_too(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", numbered(1_000))
    script = (
        "import os, sys\n"
        "child = os.fork()\n"
        "if child:\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "from detectors.frames import sources\n"
        "sources.PARALLEL_BYTES = sources.RANGE_BYTES = 4096\n"
        f"assert sources.read({str(path)!r}, processes=2).rows == 990\n"
    )
    root = Path(ranges.__file__).parents[1]
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=root)


def test_a_worker_writes_its_results_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "log.jsonl", numbered(300))
    with path.open("rb") as file, (tmp_path / "output").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        size = os.fstat(file.fileno()).st_size
        cut = ranges.Ranges(file.fileno(), 0, size, OPENAI, RANGE_BYTES)
        with range_workers.RangeWorkers(cut, 0) as workers:
            range_workers.worker_main(
                file.fileno(), 0, size, "openai", RANGE_BYTES, workers.tickets
            )
        expected = [cut.read(index) for index in range(cut.count)]
    written = (tmp_path / "output").read_bytes()
    whole = list(range_workers.load(BytesIO(written)))
    assert [result.notes for result in whole] == [result.notes for result in expected]
    assert pl.concat(result.frame for result in whole).equals(read(path).frame)
    # An incomplete result of a worker is dropped.
    assert len(list(range_workers.load(BytesIO(written[:-1])))) == cut.count - 1
    # So is one that it could not finish, which has no lengths.
    assert list(range_workers.load(BytesIO(bytes(16) + written[16:]))) == []
