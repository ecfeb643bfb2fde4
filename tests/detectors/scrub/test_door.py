"""What `scrub` and `audit` don't read is said, with its number, the reason and a way out."""

import gzip
import json
import shlex
import sqlite3
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import pytest
import zstandard
from click.testing import CliRunner, Result

from detectors.cli import library
from tests.cases import data_of, each_case
from tests.detectors.formats.adapters.source_rows import ROLLOUT, lines, opencode, table
from tests.detectors.scrub.raw_logs import CHAT_PAIR, CLAUDE_CODE

CANARY: Final = "CANARY, which a customer said"
TIME: Final = "2026-09-21T14:13:20Z"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(library, [*map(str, arguments)])


def scrub(*sources: Path | str) -> tuple[list[dict[str, Any]], str]:
    """Return the calls, and what is printed."""
    [folder] = [
        each for each in (Path(sources[0]), *Path(sources[0]).parents) if each.name == "logs"
    ]
    out = folder.with_name("usage.jsonl")
    result = run("scrub", *sources, "--out", out)
    assert CANARY not in result.output
    written = out.read_text() if result.exit_code == 0 else ""
    return [json.loads(line) for line in written.splitlines()], result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def session(name: str) -> bytes:
    message = CLAUDE_CODE["message"] | {"id": name}
    return lines(CLAUDE_CODE | {"message": message, "requestId": f"req_{name}"})


def test_links_to_folders_are_followed_and_loops_are_cut(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.jsonl").write_bytes(session("msg_2"))
    (folder / "a.jsonl").write_bytes(session("msg_1"))
    (folder / "linked").symlink_to(elsewhere)
    (folder / "again").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(folder)
    (folder / "same.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "gone.jsonl").symlink_to(folder / "nothing")
    calls, said = scrub(folder)
    assert sorted(call["request_id"] for call in calls) == ["msg_1", "msg_2"]
    assert "2 link to a folder that was read already" in said
    assert "1 link to a file that was read already" in said
    assert "1 link: No such file or directory" in said


def test_every_file_that_is_no_log_is_counted_by_its_kind(folder: Path) -> None:
    (folder / "a.jsonl").write_bytes(session("msg_1"))
    (folder / "b.out").write_bytes(session("msg_2"))  # a log by its content
    (folder / "empty.jsonl").touch()
    for name in ("c.txt", "d.txt", "image.png", "LICENSE"):
        (folder / name).write_text(CANARY)
    (folder / "damaged.jsonl.gz").write_bytes(gzip.compress(session("msg_3"))[:-9])
    calls, said = scrub(folder)
    assert [call["request_id"] for call in calls[:2]] == ["msg_1", "msg_2"]
    for part in ("1 empty file", "2 no log by its name or content (.txt)", "(.png)", "(no suffix)"):
        assert part in said
    assert "1 This gzip file is incomplete: create it again" in said
    assert str(folder / "c.txt") in said


def test_folders_and_files_that_cannot_be_read_are_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.jsonl").write_bytes(session("msg_1"))
    (folder / "locked").mkdir()
    real = __import__("os").listdir

    def listdir(path: Path) -> list[str]:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return list(real(path))

    monkeypatch.setattr("os.listdir", listdir)
    calls, said = scrub(folder)
    assert len(calls) == 1
    assert "1 folder: Permission denied" in said


@pytest.mark.parametrize("frames", [1, 2])
def test_zstandard_is_read_and_cut_files_are_said_to_be(folder: Path, frames: int) -> None:
    file, log = folder / "rollout.jsonl.zst", lines(*ROLLOUT)
    packed = b"".join(
        zstandard.compress(part) for part in ([log] if frames == 1 else [log[:500], log[500:]])
    )
    file.write_bytes(packed)
    calls, said = scrub(folder)
    assert len(calls) == 2
    assert "incomplete" not in said
    file.write_bytes(packed[:-20])
    assert "This Zstandard file is incomplete" in scrub(folder)[1]
    assert "This Zstandard file is incomplete" in scrub(file)[1]
    file.write_bytes(packed[:20] + b"\xff" * 20 + packed[40:])
    assert "This Zstandard file is" in scrub(file)[1]


def test_a_zstandard_file_that_unpacks_to_much_takes_little_memory(folder: Path) -> None:
    """A block of four bytes can be 128 KiB; so a slice is a few mebibytes at most."""
    from detectors.formats.text.blocks import unpack_zstd

    header = b"\x28\xb5\x2f\xfd" + b"\x00\x58"  # a window of 2 MiB
    block = struct.pack("<I", (131_072 << 3) | 2)[:3] + b" "
    pieces = list(map(len, unpack_zstd(iter([header + block * 400 + b"\x01\x00\x00"]))))
    assert sum(pieces) == 400 * 131_072
    assert max(pieces) <= 9 << 20


def database(path: Path, **tables: list[dict[str, Any]]) -> Path:
    with sqlite3.connect(path) as connection:
        for name, rows in tables.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(rows[0])})")
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(
                f"INSERT INTO {name} VALUES ({marks})", [tuple(row.values()) for row in rows]
            )
    connection.close()
    return path


def test_a_database_of_opencode_is_read_and_so_are_its_exports(folder: Path) -> None:
    messages = [opencode(f"msg_{n}", "ses_1", 1_790_000_000_000 + n * 60_000) for n in range(3)]
    inner = [
        {key: value for key, value in each.items() if key not in ("id", "sessionID")}
        | {"path": {"cwd": f"/home/{CANARY}"}}
        for each in messages
    ]
    rows = [
        {"id": f"msg_{n}", "session_id": "ses_1", "time_created": 1, "data": json.dumps(each)}
        for n, each in enumerate(inner)
    ]
    parts = [
        {"id": "prt_1", "message_id": "msg_1", "session_id": "ses_1", "time_created": 1,
         "data": json.dumps({"type": "step-finish", "tokens": {"input": 5, "output": 6}})}
    ]  # fmt: skip
    (folder / "one").mkdir()
    (folder / "all").mkdir()
    # Texts may be stored as bytes; others are none.
    tables = {"message": [rows[0], rows[1] | {"data": str(rows[1]["data"]).encode()}, rows[2]]}
    blobs = [{"b": b"\xff"}]
    stored = database(folder / "one" / "opencode.db", **tables, part=parts, blobs=blobs)
    calls, said = scrub(folder / "one")
    assert len(calls) == 3
    assert {call["session_id"] for call in calls} == {"ses_1"}
    assert "1 parts of what other rows count" in said
    # The same messages in every other form count once.
    for name, content in {
        "rows.json": json.dumps(rows).encode(),
        "rows.jsonl": lines(*rows),
        "data.jsonl": lines(*inner),
        "rows.csv": table(
            [
                rows[0],
                *([f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in r.values()] for r in rows),
            ]
        ),
    }.items():
        (folder / "all" / name).write_bytes(content)
        assert len(scrub(folder / "all" / name)[0]) == 3
    assert len(scrub(folder)[0]) == len(scrub(stored, folder / "all")[0]) == 3


def test_a_damaged_database_is_said_to_be(folder: Path) -> None:
    (folder / "a.jsonl").write_bytes(session("msg_1"))
    stored = database(folder / "b.db", message=[{"id": "x" * 9_000}] * 9)
    stored.write_bytes(stored.read_bytes()[:5_000])
    calls, said = scrub(folder)
    assert len(calls) == 1
    assert "1 This SQLite database is damaged, locked or encrypted" in said
    assert "SQLite database: run `tallystick scrub`" in run("audit", stored).output


def test_rows_choose_their_adapter_whatever_the_order_of_their_members(folder: Path) -> None:
    """Agents that were forked from others have members of both."""
    row = {
        "uuid": "u2", "sessionId": "s1", "timestamp": TIME, "type": "assistant",
        "model": "qwen3-coder-plus", "message": {"role": "model", "parts": [{"text": CANARY}]},
        "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 30,
                          "cachedContentTokenCount": 800, "totalTokenCount": 930},
    }  # fmt: skip
    (folder / "a.jsonl").write_bytes(lines(row))
    (folder / "b.jsonl").write_bytes(lines(dict(reversed(row.items()))))
    ((call,), _) = scrub(folder)
    assert call["usage"]["prompt_tokens_details"] == {"cached_tokens": 800}


UNKNOWN: Final = data_of(__file__)["unknown"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_proposed_mapping_of_json_reads_the_file(name: str, folder: Path) -> None:
    file = folder / "log.jsonl"
    file.write_bytes(lines(*UNKNOWN[name]))
    calls, said = scrub(file)
    assert not calls
    for printed in (said, run("audit", file).output):
        _, _, command = printed.partition(f"tallystick scrub {file} --out usage.jsonl ")
        options = shlex.split(command.splitlines()[0])
        out = folder / "mapped.jsonl"
        assert run("scrub", file, "--out", out, *options).exit_code == 0
        call, *_ = map(json.loads, out.read_text().splitlines())
        assert call["usage"]["prompt_tokens"] in (1_000, 7_000, 89, 50, 5_010)
        assert CANARY not in out.read_text()


TABLES: Final = data_of(__file__)["tables"]


@pytest.mark.parametrize("name", TABLES)
def test_a_proposed_mapping_of_columns_reads_the_file(name: str, folder: Path) -> None:
    file = folder / "log.csv"
    file.write_text("\n".join(TABLES[name]))
    for printed in (scrub(file)[1], run("audit", file).output):
        options = shlex.split(printed[printed.index("--") :].splitlines()[0])
        out = folder / "mapped.jsonl"
        assert run("scrub", file, "--out", out, *options).exit_code == 0
        (call,) = map(json.loads, out.read_text().splitlines())
        assert call["usage"]["prompt_tokens"] == 9
        assert call["usage"]["completion_tokens"] == 5
        assert run("audit", file, *options).exit_code == 0


def test_a_file_without_a_time_has_no_proposal_that_fails(folder: Path) -> None:
    file = folder / "log.csv"
    file.write_text("model,input_tokens,output_tokens,user\ngpt-5,9,5,x\n")
    reason = "We propose no mapping, because no name that we know is for ts"
    assert reason in run("audit", file).output
    assert reason in scrub(file)[1]


TOTALS: Final = data_of(__file__)["totals"]


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_recognized_as_totals(name: str, folder: Path) -> None:
    file = folder / "totals"
    file.write_text(TOTALS[name])
    for printed in (scrub(file)[1], run("audit", file).output):
        assert "totals instead of calls" in printed
        assert "--map" not in printed


def test_usage_in_unknown_names_is_named(folder: Path) -> None:
    file = folder / "log.jsonl"
    odd = {"ts": TIME, "model": "m", "usage": {"bits_read": 5, "bits_written": 7, CANARY: 5}}
    file.write_bytes(lines(CHAT_PAIR, odd, {"message": "a token of " + CANARY}))
    calls, said = scrub(file)
    assert len(calls) == 1
    assert "1 has `usage` with no field we know: usage.bits_read, usage.bits_written" in said
    assert "1 without token counts: questions, errors, notes" in said


def test_an_audit_says_which_rows_are_no_calls(folder: Path) -> None:
    file = folder / "log.jsonl"
    row = {"request_id": "r1", "call_type": "acompletion", "model": "gpt-4o", "startTime": TIME,
           "custom_llm_provider": "openai", "prompt_tokens": 9, "completion_tokens": 2}  # fmt: skip
    hits = [row | {"request_id": f"r{n}", "cache_hit": "True"} for n in range(2, 5)]
    file.write_bytes(lines(row, row, *hits))
    said = " ".join(run("audit", file).stdout.split())
    assert "4 rows are no calls to bill and not in any figure: " in said
    assert (
        "3 answered from a gateway's cache, so not billed; 1 calls logged more than once." in said
    )


BATCH: Final = {
    "recordId": "r1",
    "modelInput": {"messages": [{"role": "user", "content": "CANARY"}]},
    "modelOutput": {
        **{"id": "msg_9", "type": "message", "model": "claude-sonnet-4-5", "content": []},
        "usage": {"input_tokens": 1_000, "output_tokens": 50},
    },
}
RESULT: Final = {"custom_id": "x", "result": {"type": "succeeded", "message": BATCH["modelOutput"]}}
NO_TIMES: Final = {
    "bedrock.jsonl.out": BATCH,
    "nova.jsonl.out": {
        **BATCH,
        "modelOutput": {"usage": {"inputTokens": 1_000, "outputTokens": 50, "totalTokens": 1_050}},
        "model": "amazon.nova-pro-v1:0",
    },
    "anthropic.jsonl": RESULT,
    "answer.jsonl": {"response": BATCH["modelOutput"]},
    "record.jsonl": {
        **{"provider": "openai", "model": "gpt-4o-mini"},
        **{"prompt_tokens": 1_000, "completion_tokens": 50},
    },
}


@pytest.mark.parametrize("name", NO_TIMES)
def test_calls_without_a_time_get_the_one_that_is_given(folder: Path, name: str) -> None:
    file = folder / name
    file.write_bytes(lines(NO_TIMES[name]))
    calls, said = scrub(file)
    assert calls == []
    if name != "record.jsonl":
        assert "add when they were made: --at 2026-11-28T12:00:00Z" in said
    calls, _ = scrub(file, "--at", "2026-09-24 18:37:24")
    (call,) = calls
    assert call["ts"] == "2026-09-24T18:37:24Z"
    assert call["usage"] == {"prompt_tokens": 1_000, "completion_tokens": 50}
    for options in (("--at", "soon"), ("--at", "2026-09-24T18:37:24Z", "--provider", "openai")):
        assert "--at" in scrub(file, *options)[1]


def test_a_time_of_its_own_has_precedence(folder: Path) -> None:
    (folder / "a.jsonl").write_bytes(lines(BATCH | {"ts": TIME}, BATCH | {"recordId": "r2"}))
    calls, _ = scrub(folder, "--at", "2026-09-24T18:37:24Z")
    assert sorted(call["ts"] for call in calls) == sorted([TIME, "2026-09-24T18:37:24Z"])


@pytest.mark.parametrize("packed", [False, True])
def test_an_earlier_output_among_its_logs_is_not_read_again(folder: Path, packed: bool) -> None:
    (folder / "a.jsonl").write_bytes(session("msg_1"))
    calls, _ = scrub(folder / "a.jsonl")
    output = folder / ("usage.jsonl.gz" if packed else "usage.jsonl")
    text = lines(*calls).replace(b", ", b",").replace(b": ", b":")
    output.write_bytes(gzip.compress(text) if packed else text)
    again, said = scrub(folder)
    assert again == calls
    assert "1 output of `tallystick scrub` among its logs, read if you name it" in said
    named, _ = scrub(output)
    assert named == calls
    (folder / "a.jsonl").unlink()
    assert scrub(folder)[0] == calls  # nothing else: nobody's calls count twice


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.compress, zlib.compress, bytes], ids=lambda f: f.__name__
)
def test_texts_of_a_database_may_be_compressed(folder: Path, pack: Any) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    answer = {"created": 1_790_000_000, "model": "gpt-4o-mini", "usage": usage}
    rows = [{"data": pack(json.dumps(answer | {"id": f"chatcmpl-{n}"}).encode())} for n in (1, 2)]
    with sqlite3.connect(folder / "a.db") as connection:
        connection.execute("CREATE TABLE calls (id TEXT, response BLOB, vector BLOB)")
        for each in rows:
            connection.execute("INSERT INTO calls VALUES ('1', ?, ?)", (each["data"], b"\xff\x00"))
    calls, said = scrub(folder)
    assert [call["usage"]["prompt_tokens"] for call in calls] == [9, 9]
    assert "2 bytes that are no text in `calls.vector`: " in said


EXPLAINED: Final = data_of(__file__)["explained"]


@each_case("reason", EXPLAINED)
def test_what_is_no_call_is_named_as_what_it_is(folder: Path, reason: str) -> None:
    file = folder / "log.jsonl"
    file.write_bytes(lines(EXPLAINED[reason]))
    calls, said = scrub(file)
    assert not calls
    assert reason in said


def test_a_mapping_of_one_row_only_is_not_proposed(folder: Path) -> None:
    """Such as of a member that is named after a message or a model."""
    counts = {"prompt_tokens": 9, "completion_tokens": 5}
    rows = [
        {"created_at": TIME, "model": "gpt-5", "tokens_by_id": {f"message_{n}": counts}}
        for n in range(3)
    ]
    (folder / "log.jsonl").write_bytes(lines(*rows))
    assert "To read" not in scrub(folder)[1]
