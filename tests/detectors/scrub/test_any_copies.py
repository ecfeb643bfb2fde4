"""The samples of every agent and gateway, however they are copied, give the same calls.

They are shuffled, split into files, logged again, backed up while they were written (and so cut off
at any byte), and moved across midnight.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache
from io import BytesIO
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

import detectors.formats.adapters as room
from detectors.formats.adapters import adapters
from detectors.scrub.scrubber import Scrubber
from tests.detectors.scrub import raw_logs
from tests.exploration import explored

Row = dict[str, Any]
ROOM: Final = Path(room.__file__).parent
MIDNIGHT: Final = datetime.fromisoformat("2026-09-21T23:59:58+00:00")
# Rows of these mean nothing without what their file says before them.
CODEX, GEMINI = IN_ORDER = ("agents.codex", "agents.gemini_cli")
TABLE: Final = "gateways.openrouter"
_TIME: Final = re.compile(r"2026-09-21T[0-9:.]+Z?")
_NUMBER: Final = re.compile(r"\b1790[0-9]{6}(?:[0-9]{3})?(?:\.[0-9]+)?\b")


@cache
def samples() -> dict[str, list[Row]]:
    """Return rows by the name of their source."""
    pairs: list[Row] = [raw_logs.CHAT_PAIR, raw_logs.RESPONSE_PAIR, raw_logs.MESSAGE_PAIR]
    found: dict[str, list[Row]] = {"exchanges": raw_logs.apart(pairs)}
    for name in adapters():
        for path in (ROOM / name.replace(".", "/")).glob("sample.json*"):
            text = path.read_text()
            try:
                document = json.loads(text)
            except ValueError:
                document = [json.loads(line) for line in text.splitlines()]
            page = document.get("data") if isinstance(document, dict) else None
            if name == GEMINI:
                page = [document | {"messages": None}, *document["messages"]]  # as newer releases
            rows = page if isinstance(page, list) else document
            rows = rows if isinstance(rows, list) else [rows]
            found[name] = rows if name in IN_ORDER else list(filter(is_named, rows))
    return found


@cache
def tables() -> dict[str, list[bytes]]:
    """Return lines of CSV, the header first; their times are as in the other samples."""
    text = (ROOM / TABLE.replace(".", "/") / "sample.csv").read_text()
    return {TABLE: text.replace("2026-03-30 ", "2026-09-21T").encode().splitlines(keepends=True)}


@cache
def together() -> list[str]:
    return calls_of(b"".join(lines(rows)) for rows in samples().values())


def moved(rows: list[bytes], by: timedelta) -> list[bytes]:
    """Return the rows at other times, in whatever form they have them."""

    def later(found: re.Match[str]) -> str:
        text = found[0].removesuffix("Z")
        moment = datetime.fromisoformat(text) + by
        return moment.isoformat(timespec="milliseconds") + ("Z" if found[0][-1] == "Z" else "")

    def number(found: re.Match[str]) -> str:
        unit = 1_000 if len(found[0].partition(".")[0]) == 13 else 1
        value = float(found[0]) + by.total_seconds() * unit
        return repr(value) if "." in found[0] else str(round(value))

    return [_NUMBER.sub(number, _TIME.sub(later, row.decode())).encode() for row in rows]


def calls_of(files: Iterable[bytes]) -> list[str]:
    scrubber = Scrubber()
    written = b"".join(b"".join(scrubber.add(BytesIO(file))) for file in files)
    found = map(json.loads, (written + b"".join(scrubber.close())).splitlines())
    return sorted(json.dumps(call, sort_keys=True) for call in found)


def lines(rows: Iterable[Row]) -> list[bytes]:
    return [json.dumps(row).encode() + b"\n" for row in rows]


def copied(name: str, rows: list[bytes], draw: Random) -> Iterator[bytes]:
    """Yield files that have each row at least once, and nothing else that is whole."""
    whole = b"".join(rows)
    order = shuffled(name, rows, draw)
    cut = draw.randrange(len(rows) + 1)
    yield b"".join(order[:cut])
    yield b"".join([*before(name, order, cut), *order[cut:]])
    yield whole[: draw.randrange(len(whole) + 1)]  # a backup while it was written
    yield whole


def shuffled(name: str, rows: list[bytes], draw: Random) -> list[bytes]:
    """Return the rows in another order that means the same.

    What a session or a table begins with stays, and what a session of Codex says of the calls that
    follow it.
    """
    head = 0 if name not in (*IN_ORDER, TABLE) else 1
    if name != CODEX:
        return [*rows[:head], *draw.sample(rows[head:], len(rows) - head)]
    groups = (list(group) for _, group in groupby(rows, lambda row: b'"token_count"' in row))
    return [
        row
        for group in groups
        for row in (draw.sample(group, len(group)) if is_call(group) else group)
    ]


def is_call(rows: list[bytes]) -> bool:
    return b'"token_count"' in rows[0]


def before(name: str, rows: list[bytes], cut: int) -> list[bytes]:
    """Return what a file has to begin with whose first other row is that at `cut`."""
    if name != CODEX:
        return rows[: min(cut, 1)] if name in (GEMINI, TABLE) else []
    return [row for row in rows[:cut] if b'"token_count"' not in row]


def is_named(row: Row) -> bool:
    """Check that a row's calls have IDs: copies of calls without one are told apart by nothing."""
    return all("request_id" in json.loads(call) for call in calls_of(lines([row])))


@explored(400, st.sampled_from([*adapters(), "exchanges"]), st.integers(0, 1 << 32))
def test_copies_of_any_kind_add_no_call_and_lose_none(name: str, seed: int) -> None:
    draw = Random(seed)
    rows = tables().get(name) or lines(samples()[name])
    times = [str(found) for found in _TIME.findall(b"".join(rows).decode())]
    begin = min(map(parsed, times), default=None)
    if begin is not None and draw.random() < 0.5:
        rows = moved(rows, MIDNIGHT - begin)
    wanted = calls_of([b"".join(rows)])
    files = list(copied(name, rows, draw))
    assert wanted
    assert calls_of(draw.sample(files, len(files))) == wanted


def parsed(text: str) -> datetime:
    return datetime.fromisoformat(text.removesuffix("Z") + "+00:00")


@explored(50, st.integers(0, 1 << 32))
def test_all_samples_give_the_same_calls_in_any_order(seed: int) -> None:
    each = [b"".join(lines(rows)) for rows in samples().values()]
    assert calls_of(Random(seed).sample(each, len(each))) == together()
