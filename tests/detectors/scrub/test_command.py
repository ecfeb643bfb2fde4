"""`tallystick scrub`: what it reads and writes, what it prints, and how it refuses."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from detectors.cli import console, library
from detectors.cli.scrub import _scrub_all
from detectors.scrub import scrub
from detectors.scrub.folders import Log
from detectors.scrub.scrubber import Scrubber
from tests.detectors.scrub.raw_logs import CHAT_PAIR, CLAUDE_CODE, MESSAGE_PAIR, RAW, apart

CANARY: Final = b"CANARY the customer said"


def dump(*documents: Any) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def run(*arguments: str | Path, given: bytes | None = None) -> Result:
    return CliRunner().invoke(library, ["scrub", *map(str, arguments)], input=given)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "usage.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    (folder / "project" / "subagents").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (folder / "project" / "a.jsonl").write_bytes(dump(CLAUDE_CODE))
    (folder / "project" / "subagents" / "b.JSONL.GZ").write_bytes(gzip.compress(dump(CHAT_PAIR)))
    (folder / "notes.txt").write_bytes(CANARY)
    return folder


def test_files_and_folders_become_one_log(folder: Path, out: Path) -> None:
    extra = folder.parent / "extra"
    extra.write_bytes(dump(*apart([MESSAGE_PAIR, {"note": "nothing"}])))
    result = run(folder, extra, "--hash-short-prompts", "--out", out)
    assert result.exit_code == 0, result.output
    models = [json.loads(line)["provider"] for line in out.read_bytes().splitlines()]
    assert models == ["openai", "anthropic", "claude-code"]
    printed = " ".join(result.stdout.split())
    assert printed.startswith(f"Wrote 3 calls from 3 files to {out}:".replace("\n", " "))
    assert "; 2 with a prompt hash." in printed
    assert "Dropped: 1 without token counts" in printed
    assert f"no log by its name or content (.txt): {folder}/notes.txt" in printed
    assert list(out.parent.iterdir()) == [out]


def test_the_library_does_the_same(folder: Path, out: Path) -> None:
    assert run(folder, "--out", out).exit_code == 0
    again = out.with_name("again.jsonl")
    summary = scrub([folder], again)
    assert again.read_bytes() == out.read_bytes()
    assert (summary.calls, summary.files) == (2, 2)


def test_it_reads_standard_input_and_writes_standard_output() -> None:
    result = run("-", "--out", "-", given=dump(CHAT_PAIR))
    assert json.loads(result.stdout)["model"] == "gpt-5.4"
    assert result.stderr.startswith("Wrote 1 call from 1 file to standard output:")


def test_the_module_does_the_same_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detectors", "scrub", "-", "--out", "-"],
        input=dump(*apart([*RAW.values()])), capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == len(RAW)


def test_an_output_within_the_folder_is_not_read(folder: Path) -> None:
    out = folder / "usage.jsonl"
    for _ in range(2):
        assert run(folder, "--out", out).exit_code == 0
        assert len(out.read_bytes().splitlines()) == 2


REFUSED: Final[list[bytes]] = [
    b"", b"\n \n", b"{}", CANARY, CANARY * 9_999, b"[" + CANARY, b"[" * 100_000, b"[]", b"[1]",
    b'{"a":' * 100_000, b"\x1f\x8b" + CANARY, gzip.compress(dump(CHAT_PAIR), mtime=0)[:-9],
    b"\x00" * 4_096, gzip.compress(CANARY, mtime=0), b"%PDF-1.7\n" + CANARY,
    b'{"model": "' + CANARY, b"\xff\xfe{\x00}\x00",
    dump({"messages": [{"content": CANARY.decode()}]}), b"ts,provider,model\n1,2,3",
    b"{\n" + CANARY, b"[" + dump(CHAT_PAIR) + b"] CANARY", b"[" + dump(CHAT_PAIR),
    b"{" + b" " * (1 << 20),
]  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED, ids=lambda raw: f"{len(raw)} {raw[:16]!r}")
def test_a_file_without_calls_is_rejected_in_one_line_and_not_repeated(
    raw: bytes, tmp_path: Path
) -> None:
    log, out = tmp_path / "raw.jsonl", tmp_path / "usage.jsonl"
    log.write_bytes(raw)
    result = run(log, "--out", out)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert "CANARY" not in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["raw.jsonl"]


def test_a_refusal_leaves_an_earlier_output_as_it_was(tmp_path: Path) -> None:
    log, out = tmp_path / "raw.jsonl", tmp_path / "usage.jsonl"
    log.write_bytes(b"{}")
    out.write_bytes(b"earlier")
    assert run(log, "--out", out).exit_code == 2
    assert out.read_bytes() == b"earlier"


def test_files_that_cannot_be_read_or_written_give_a_one_line_error(tmp_path: Path) -> None:
    log = tmp_path / "raw.jsonl"
    log.write_bytes(dump(CHAT_PAIR))
    assert "cannot read" in run(tmp_path / "missing", "--out", tmp_path / "o").stderr
    assert "cannot write the output" in run(log, "--out", tmp_path / "no" / "o").stderr
    assert "cannot write the output" in run(log, "--out", tmp_path).stderr
    assert "cannot be both input and output" in run(log, "--out", log).stderr
    (tmp_path / "empty").mkdir()
    assert "We found no logs" in run(tmp_path / "empty", "--out", tmp_path / "o").stderr
    assert run("--out", tmp_path / "o").exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full here")
def test_a_full_disk_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detectors", "scrub", "-", "--out", "/dev/full"],
        input=dump(CHAT_PAIR), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "Error: cannot write the output: No space left on device"
    ]


def test_a_device_is_written_directly(tmp_path: Path) -> None:
    log = tmp_path / "raw.jsonl"
    log.write_bytes(dump(CHAT_PAIR))
    printed = run(log, "--out", "/dev/null").stdout
    assert printed.startswith("Wrote 1 call from 1 file to /dev/null:")


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    log = tmp_path / "raw.jsonl"
    log.write_bytes(b"".join(dump(CHAT_PAIR | {"ts": 1_790_000_000 + n}) for n in range(20_000)))
    command = [sys.executable, "-m", "detectors", "scrub", str(log), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_it_shows_on_a_terminal_how_far_it_is(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[float, float]] = []
    monkeypatch.setattr(console, "LONG_FILE_BYTES", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    def update(_: Any, __: Any, *, completed: float, total: float) -> None:
        heard.append((completed, total))

    monkeypatch.setattr("rich.progress.Progress.update", update)
    list(_scrub_all(Scrubber(), [Log(each) for each in sorted((folder / "project").rglob("*.*"))]))
    total = sum(file.stat().st_size for file in (folder / "project").rglob("*.*"))
    assert heard[-1:] == [(total, total)]
    assert sorted(heard) == heard
