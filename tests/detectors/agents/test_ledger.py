"""The ledger has each call once, whatever its files go through, with the bill that is known."""

import json
import random
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import zstandard

import detectors
from benchmarks.agent_sessions import Billed, write_sessions
from detectors.agents import reading
from detectors.agents.files import BLOCK_BYTES, SYNTHETIC
from detectors.agents.folders import Source, find_sources
from detectors.agents.ledger import Ledger
from detectors.contract import UsageRecordV2
from detectors.formats.adapters import agents as room
from detectors.formats.adapters.calls import Call, record_of

ROOM: Final = Path(room.__file__).parent
_BILL: Final = """
SELECT agent, model, tier, project, is_subagent, count(*), sum(prompt), sum(completion),
    sum(cached), sum(written), sum(written_1h), sum(reasoning), sum(searches)
FROM calls GROUP BY 1, 2, 3, 4, 5
"""
Bill = dict[tuple[Any, ...], tuple[int, ...]]


def known_bill(calls: list[Billed]) -> Bill:
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 8)
    for call in calls:
        key = (call.agent, call.model, call.tier, call.project, int(call.is_subagent))
        counts = (
            *(1, call.prompt, call.completion, call.cached, call.written, call.written_1h),
            *(call.reasoning, call.searches),
        )
        found[key] = [before + count for before, count in zip(found[key], counts, strict=True)]
    return {key: tuple(counts) for key, counts in found.items()}


def bill_of(ledger: Ledger) -> Bill:
    return {row[:5]: row[5:] for row in ledger.database.execute(_BILL)}


def read_home(home: Path, ledger: Ledger) -> Ledger:
    assert reading.update(ledger, find_sources({}, home), processes=1) == []
    return ledger


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Billed]]:
    """Sessions that were resumed, forked twice, compacted, advised, in every tier: some 900."""
    home = tmp_path_factory.mktemp("agents")
    return home, write_sessions(home, 24, 1_200_000, seed=7)


@pytest.fixture
def home(corpus: tuple[Path, list[Billed]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus[0], tmp_path / "home"))


@pytest.fixture(scope="module")
def read(corpus: tuple[Path, list[Billed]]) -> Iterator[Ledger]:
    ledger = read_home(corpus[0], Ledger(":memory:"))
    reading.price(ledger)
    yield ledger
    ledger.close()


def test_the_corpus_has_what_agents_do(corpus: tuple[Path, list[Billed]]) -> None:
    home, calls = corpus
    texts = [path.read_text() for path in home.rglob("*.jsonl")]
    for sign in (
        '"forked_from_id"',
        '"compaction"',
        '"advisor_message"',
        "<synthetic>",
        "subagents",
    ):
        assert any(sign in text for text in texts) or any(sign in str(p) for p in home.rglob("*"))
    assert {call.tier for call in calls} == {"", "fast", "priority"}
    assert any(call.written_1h for call in calls)


def test_the_bill_is_the_known_one(corpus: tuple[Path, list[Billed]], read: Ledger) -> None:
    assert bill_of(read) == known_bill(corpus[1])


def test_what_is_new_is_compared_without_reading_all_calls(home: Path, read: Ledger) -> None:
    planned: list[str] = []
    ledger = Ledger(":memory:")
    read.database.backup(ledger.database)

    def plan(statement: str) -> None:
        if statement.strip().startswith("SELECT"):
            found = read.database.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            planned.extend(row[3] for row in found)

    read.database.execute("CREATE TEMP TABLE IF NOT EXISTS touched (id TEXT PRIMARY KEY)")
    ledger.database.set_trace_callback(plan)
    read_home(home, ledger)
    ledger.close()
    assert any("SEARCH seen" in step for step in planned)
    assert [step for step in planned if step.startswith(("SCAN seen", "SCAN calls"))] == []


def test_dollars_are_those_of_an_audit(
    corpus: tuple[Path, list[Billed]], read: Ledger, tmp_path: Path
) -> None:
    log = tmp_path / "usage.jsonl"
    records = ({k: v for k, v in call.record().items() if v is not None} for call in corpus[1])
    log.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    audited = {
        (each.provider, each.model): each.spend_usd for each in detectors.audit(log).spend_by_model
    }
    query = "SELECT provider, model, sum(usd) FROM calls GROUP BY 1, 2"
    ours = {(p, m): Decimal(usd) for p, m, usd in read.database.execute(query)}
    assert ours.keys() == audited.keys()
    for key, usd in audited.items():
        assert abs(ours[key] - usd) < Decimal("0.000001"), key


def test_files_that_grow_are_read_from_where_they_ended(
    corpus: tuple[Path, list[Billed]], tmp_path: Path
) -> None:
    rng, ledger = random.Random(5), Ledger(":memory:")
    home = tmp_path / "home"
    contents = {p.relative_to(corpus[0]): p.read_bytes() for p in corpus[0].rglob("*.jsonl")}
    ends = {path: 0 for path in contents}
    for share in (0.3, 0.7, 1.0):
        paths = list(contents)
        rng.shuffle(paths)
        for path in paths:
            ends[path] = max(
                ends[path], int(len(contents[path]) * min(1.0, share * rng.uniform(0.8, 1.2)))
            )
            if share == 1.0:
                ends[path] = len(contents[path])
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(contents[path][: ends[path]])
        read_home(home, ledger)
    assert bill_of(ledger) == known_bill(corpus[1])


def test_copies_rotations_and_deleted_files_change_nothing(
    corpus: tuple[Path, list[Billed]], home: Path, tmp_path: Path
) -> None:
    ledger = read_home(home, Ledger(tmp_path / "ledger.db"))
    rollouts = sorted((home / ".codex").rglob("*.jsonl"))
    packed = rollouts[0].with_suffix(".jsonl.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(rollouts[0].read_bytes()))
    rollouts[0].unlink()
    sessions = sorted((home / ".claude").rglob("*.jsonl"))
    shutil.copy(sessions[0], sessions[0].with_name("backup.jsonl"))  # with another inode
    sessions[1].rename(sessions[1].with_name("renamed.jsonl"))
    sessions[2].write_bytes(sessions[2].read_bytes()[:-400])
    read_home(home, ledger)
    shutil.rmtree(home / ".claude")
    read_home(home, ledger)
    ledger.close()
    again = Ledger(tmp_path / "ledger.db")
    assert bill_of(read_home(home, again)) == known_bill(corpus[1])
    again.close()


def test_a_file_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    line = json.loads((ROOM / "claude_code" / "sample.jsonl").read_text().splitlines()[3])

    def lines(*names: str) -> str:
        found = []
        for name in names:
            own = json.loads(json.dumps(line).replace("msg_01A", name))
            found.append(f"{json.dumps(own)}\n")
        return "".join(found)

    ledger = Ledger(":memory:")
    for names in (("msg_1", "msg_2"), ("msg_3", "msg_4", "msg_5"), ("msg_6",)):
        path.write_text(lines(*names))
        read_home(tmp_path, ledger)
    ids = [row[0] for row in ledger.database.execute("SELECT id FROM calls ORDER BY id")]
    assert ids == [f"msg_{number}" for number in range(1, 7)]


def test_lines_longer_than_a_block_and_without_an_end_are_read(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    text = (ROOM / "claude_code" / "sample.jsonl").read_text().splitlines()[3]
    long = json.loads(text) | {"toolUseResult": "x" * (BLOCK_BYTES + 5)}
    path.write_text(f"{json.dumps(long)}\n{text.replace('msg_01A', 'msg_01Z')}")
    ledger = read_home(tmp_path, Ledger(":memory:"))
    ids = {row[0] for row in ledger.database.execute("SELECT id FROM calls")}
    assert ids == {"msg_01A", "msg_01Z"}
    path.write_bytes(path.read_bytes() + b'\n{damaged "usage"\n')
    read_home(tmp_path, ledger)
    (unread,) = ledger.database.execute("SELECT unread FROM files").fetchone()
    assert json.loads(unread) == {"lines that aren't valid JSON": 1}


@pytest.mark.parametrize(
    "name", ["claude_code", "codex", "gemini_cli", "qwen_code", "amp", "copilot_cli"]
)
def test_a_sample_of_each_agent_gives_its_records(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    for path in ROOM.joinpath(name).glob("sample.*"):
        shutil.copy(path, folder / path.name)
    endings = (".jsonl", ".json")
    ledger = Ledger(":memory:")
    assert reading.update(ledger, [Source(name, folder, name, endings)], processes=1) == []
    decode = msgspec.msgpack.Decoder(Call).decode
    rows = ledger.database.execute("SELECT body FROM calls").fetchall()
    found = [msgspec.json.decode(msgspec.json.encode(record_of(decode(row[0])))) for row in rows]
    wanted = msgspec.json.Decoder(UsageRecordV2).decode_lines(
        (ROOM / name / "expected.jsonl").read_bytes()
    )
    kept = (
        "ts",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "request_id",
        "tag",
    )

    def key(record: dict[str, Any]) -> list[str]:
        return [str(record.get(name) or 0) for name in kept]

    plain = [msgspec.json.decode(msgspec.json.encode(record)) for record in wanted]
    assert sorted(map(key, found)) == sorted(map(key, plain))


def opencode(path: Path, *messages: tuple[int, int, int]) -> None:
    """Write messages into opencode's database: when, when changed, and how many output tokens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE IF NOT EXISTS message (id PRIMARY KEY, session_id, time_created,"
        " time_updated, data)"
    )
    for created, updated, tokens in messages:
        data = {
            "role": "assistant", "modelID": "gpt-5.4", "providerID": "openai", "cost": 0.02,
            "time": {"created": created, "completed": created + 4_200},
            "path": {"cwd": "/home/dev/boats", "root": "/home/dev/boats"},
            "tokens": {
                "input": 20, "output": tokens, "reasoning": 0, "cache": {"read": 500, "write": 0}
            },
        }  # fmt: skip
        row = (f"msg_{created}", "ses_1", created, updated, json.dumps(data))
        database.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", row)
    database.commit()
    database.close()


def test_opencode_is_read_from_its_database(tmp_path: Path) -> None:
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    opencode(path, (1_790_000_000_250, 0, 9))
    ledger = read_home(tmp_path, Ledger(":memory:"))
    query = "SELECT agent, project, session, prompt, cached, is_metered, reported FROM calls"
    assert ledger.database.execute(query).fetchall() == [
        ("opencode", "boats", "ses_1", 520, 500, 1, 0.02)
    ]


def test_only_what_is_new_in_opencodes_database_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    now, day = time.time_ns() // 1_000_000, 86_400_000
    ledger = Ledger(":memory:")

    def answers() -> list[int]:
        read_home(tmp_path, ledger)
        query = "SELECT completion FROM calls ORDER BY at"
        return [row[0] for row in ledger.database.execute(query)]

    opencode(path, (now - 3 * day, now - 3 * day, 20))
    assert answers() == [20]
    # A row that nobody has changed for a day is not read again; here it has other counts.
    opencode(path, (now - 3 * day, now - 3 * day, 30), (now, now, 40))
    assert answers() == [20, 40]
    # One that has changed is, and so is everything in another file.
    opencode(path, (now - 3 * day, now + 1, 50))
    assert answers() == [50, 40]
    path.rename(path.with_suffix(".old"))
    opencode(path, (now - 9 * day, now - 9 * day, 60))
    assert answers() == [60, 50, 40]


def with_canaries(value: Any, canary: str) -> Iterator[Any]:
    """Yield the value with a canary in the place of each of its texts."""
    if isinstance(value, str):
        yield canary
    elif isinstance(value, dict):
        for name, inner in value.items():
            for changed in with_canaries(inner, canary):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for changed in with_canaries(inner, canary):
                yield [*value[:place], changed, *value[place + 1 :]]


@pytest.mark.parametrize(
    "name", ["claude_code", "codex", "gemini_cli", "qwen_code", "cline", "amp", "copilot_cli"]
)
def test_a_canary_in_any_text_is_not_in_the_ledger(name: str, tmp_path: Path) -> None:
    canary, files = "CANARY the customer said", 0
    folder = tmp_path / "chats"
    folder.mkdir()
    [sample] = (ROOM / name).glob("sample.*")
    text = sample.read_text()
    lines = text.splitlines() if sample.suffix == ".jsonl" else [json.dumps(json.loads(text))]
    for place, line in enumerate(lines):
        for changed in with_canaries(json.loads(line), canary):
            files += 1
            content = "\n".join([*lines[:place], json.dumps(changed), *lines[place + 1 :]])
            (folder / f"{files}{sample.suffix}").write_text(f"{content}\n")
    ledger = Ledger(tmp_path / "ledger.db")
    sources = [Source(name, folder, name, (".jsonl", ".json"))]
    assert reading.update(ledger, sources, processes=1) == []
    reading.price(ledger)
    assert ledger.database.execute("SELECT count(*) FROM calls").fetchone()[0] > 0
    ledger.close()
    assert b"CANARY" not in (tmp_path / "ledger.db").read_bytes()
    assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0


def test_messages_of_the_agent_itself_are_named(read: Ledger) -> None:
    unread = [json.loads(row[0]) for row in read.database.execute("SELECT unread FROM files")]
    assert {reason for reasons in unread for reason in reasons} == {SYNTHETIC}


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "sessions" / "a.jsonl.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x28\xb5\x2f\xfdnothing")
    [problem] = reading.update(Ledger(":memory:"), find_sources({}, tmp_path))
    assert problem.startswith(f"{path}: ")


def test_several_processes_read_what_one_does(
    corpus: tuple[Path, list[Billed]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PARALLEL_BYTES", 0)
    ledger = Ledger(":memory:")
    assert reading.update(ledger, find_sources({}, corpus[0]), processes=2) == []
    assert bill_of(ledger) == known_bill(corpus[1])


def test_old_calls_are_forgotten(corpus: tuple[Path, list[Billed]]) -> None:
    ledger = read_home(corpus[0], Ledger(":memory:"))
    middle = sorted(int(call.at.timestamp() * 1_000_000) for call in corpus[1])[400]
    ledger.forget(middle)
    found = ledger.database.execute("SELECT count(*), min(at) FROM calls").fetchone()
    assert found[0] == len(corpus[1]) - 400
    assert found[1] >= middle
