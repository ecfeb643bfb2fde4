"""What came in several ways counts once: agents, gateways, logs, and the same answer read again."""

import json
import tomllib
from io import BytesIO
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from detectors.formats.adapters import duplicates
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case

CASES: Final = tomllib.loads(Path(__file__).with_name("several_ways.toml").read_text())


def files_of(case: str) -> tuple[bytes, ...]:
    return tuple(file.encode() for file in CASES[case]["files"])


def found(files: tuple[bytes, ...], scrubber: Scrubber | None = None) -> list[list[int]]:
    scrubber = scrubber or Scrubber()
    written = [b"".join(scrubber.add(BytesIO(file))) for file in files]
    calls = map(json.loads, b"".join([*written, *scrubber.close()]).splitlines())
    counts = [
        [call["usage"]["prompt_tokens"], call["usage"]["completion_tokens"]] for call in calls
    ]
    return sorted(counts)


@each_case("case", CASES)
def test_what_came_in_several_ways_counts_once(case: str) -> None:
    wanted, files = sorted(CASES[case]["comes_to"]), files_of(case)
    orders = permutations(files) if len(files) < 4 else (files, tuple(reversed(files)))
    for order in orders:
        assert found(order) == wanted
    assert found((*files, *files)) == wanted


def test_tables_that_were_copied_while_they_were_written_count_once() -> None:
    (table,) = files_of("tables that were copied while they were written")
    copies = (table, *(table[:end] for end in range(82, len(table) - 1)))
    wanted = CASES["tables that were copied while they were written"]["comes_to"]
    assert found(copies) == found(copies[::-1]) == found((*copies, *copies)) == wanted


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def exchange(name: str, given: int, second: int) -> dict[str, Any]:
    usage = {"prompt_tokens": given, "completion_tokens": 5}
    response = {"id": name, "model": "gpt-4o", "usage": usage}
    return {"ts": f"2026-09-21T23:59:5{second}Z", "request": {}, "response": response}


def helicone(name: str, given: int, second: int) -> dict[str, Any]:
    row = {"request_id": f"h-{second}", "request_created_at": f"2026-09-21T23:59:5{second}Z"}
    answered = {"provider": "OPENAI", "response_status": 200, "response_body": {"id": name}}
    counts = {"prompt_tokens": given, "completion_tokens": 5}
    return {**row, "model": "gpt-4o", **answered, **counts}


@pytest.mark.parametrize("window", [2, 1_000_000])
def test_of_what_does_not_fit_into_memory_copies_are_found_on_disk(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "WINDOW", window)
    log = lines(*(exchange(f"chatcmpl-{number}", 10, number) for number in range(9)))
    same = lines(exchange("chatcmpl-same", 10, 1), exchange("chatcmpl-same", 11, 2))
    rows = lines(*(helicone(f"chatcmpl-{number}", 10, number) for number in range(9)))
    other = lines(helicone("chatcmpl-same", 12, 3), helicone("chatcmpl-none", 13, 3))
    scrubber = Scrubber()
    assert len(found((rows, log, same, other), scrubber)) == 13
    assert scrubber.summary.dropped == {duplicates.DUPLICATE_ROW: 9}


def test_of_two_ways_the_larger_counts_stay_at_the_earlier_time_in_the_agents_session() -> None:
    agent, gateway = files_of("an agent, and a gateway that counts more")
    for rows in (agent + gateway, gateway + agent):
        scrubber = Scrubber()
        (line,) = b"".join(scrubber.read(BytesIO(rows))).splitlines()
        call = json.loads(line)
        assert call["usage"]["completion_tokens"] == 81
        assert call["ts"].startswith("2026-09-21T23:59:57")
        assert call["session_id"] == json.loads(agent)["sessionId"]
        assert (call["provider"], call["request_id"]) == ("anthropic", "msg_A")
        assert scrubber.summary.dropped == {duplicates.DUPLICATE_ROW: 1}
