"""Reads one session file from where the last reading ended: its calls, and the plan's limits.

Only lines that can have counts are decoded: usual ones at once, others by the adapters that read
uploads and `scrub`.
"""

import hashlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from detectors.agents.folders import File
from detectors.agents.usual import (
    Found,
    Limits,
    Repeated,
    decode_limits,
    read_message,
    read_turn,
)
from detectors.contract.windows import to_full_hours
from detectors.errors import CutOffLogError, DetectorError
from detectors.formats.adapters.adapter import Adapter, State
from detectors.formats.adapters.calls import (
    NO_MODEL,
    NO_USAGE,
    REPEATED,
    Call,
    Origin,
    Sighting,
    calls_of,
    find_moment,
)
from detectors.formats.adapters.duplicates import Once, TakenCall, encode_copy
from detectors.formats.adapters.labels import find_model, find_tag, id_of, route_of
from detectors.formats.adapters.rows import UNREADABLE, Row
from detectors.formats.text.blocks import read_blocks
from detectors.formats.text.splitting import join_document, split_array

BLOCK_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 64 << 20
_MARK_BYTES: Final = 4_096
_MARKS: Final = {
    "claude_code": (b'"usage"',),
    "codex": (b'"token_count"', b'"session_meta"', b'"turn_context"', b'"thread_settings'),
    "gemini_cli": (b'"tokens"', b'"sessionId"'),
    "qwen_code": (b'"usageMetadata"',),
    "opencode": (b"{",),
    "cline": (
        *(b'"api_req_started"', b'"metrics"', b'"condense_context"'),
        *(b'"deleted_api_reqs"', b'"api_req_deleted"', b'"subagent_usage"'),
    ),
    "amp": (b'"usage"', b'"usageLedger"'),
    "copilot_cli": (b'"gen_ai.usage.',),
}
SYNTHETIC: Final = "messages that the agent wrote itself (<synthetic>)"
CUT_OFF: Final = "lines that aren't valid JSON"
_QUIET: Final = (NO_USAGE, REPEATED)
# Providers of Cline that are another agent, which writes session files of its own.
_AGENTS: Final = ("claude-code", "openai-codex-cli")
OTHERS: Final = "requests through Claude Code or Codex, which their own files have"
_QUERIES: Final = {
    "message": "SELECT id, session_id, time_created, data FROM message",
    "session_message": "SELECT id, session_id, time_created, type, data FROM session_message",
}
_SINCE: Final = " WHERE max(time_created, coalesce(time_updated, 0)) > ?"
_DAY_MS: Final = 86_400_000
_GROWS_US: Final = 60_000_000  # as near as copies without a request's ID are to be found


class Limit(msgspec.Struct, frozen=True):
    """How much of a window of a plan is used, as the agent's source says."""

    agent: str
    window_minutes: int
    resets_at: int  # seconds since 1970
    used_percent: float
    plan: str
    at: int


class Mark(msgspec.Struct, frozen=True):
    """Where a reading ended, and what shows that the file is still the same up to there.

    A database was read at a time instead, in milliseconds since 1970.
    """

    offset: int = 0
    head: bytes = b""
    tail: bytes = b""
    state: bytes = b""
    unread: dict[str, int] = {}  # up to there


class FileRead(msgspec.Struct):
    file: File
    mark: Mark
    copies: list[tuple[Any, ...]]
    sessions: dict[str, Origin]
    ends: dict[str, int]
    limits: list[Limit]
    unread: dict[str, int]
    bytes_read: int
    problem: str = ""
    is_tried_again: bool = False  # because what the system refused may change without the file


class _Copies(Once):
    """Collects the copies of calls instead of comparing them.

    Of a message that is logged several times while it grows, within a minute, one copy stays: with
    the counts of the fullest, at the time of the first. Nearly half of all copies are such.
    """

    def __init__(self) -> None:
        super().__init__(Counter())
        self._first: dict[tuple[Any, ...], tuple[int, datetime, str | None]] = {}

    def add(self, call: Call, seen: Sighting) -> Iterator[TakenCall]:
        yield from super().add(call, seen)
        *names, at, prompt, session, size, number, span, body = self._pending[-1]
        if not (names[-1] and prompt):  # the request's ID is not known, or not what it asked
            return
        key = (*names, prompt, session)
        place, begun, tag = self._first.setdefault(key, (number - 1, call.ts, call.tag))
        first = self._pending[place]
        if place == number - 1:
            return
        if not 0 <= at - first[3] < _GROWS_US:
            self._first[key] = (number - 1, call.ts, call.tag)
            return
        self._pending.pop()
        self._number -= 1
        if size >= first[6]:
            call.ts, call.tag = begun, tag or call.tag
            kept = (*names, first[3], prompt, session, size, first[7], span, encode_copy(call))
            self._pending[place] = kept

    def _flush(self) -> None:
        pass

    @property
    def found(self) -> list[tuple[Any, ...]]:
        return self._pending

    @property
    def sessions(self) -> dict[str, Origin]:
        return self._sessions

    @property
    def ends(self) -> dict[str, int]:
        return self._ends


@cache
def adapter_of(name: str) -> Adapter:
    found: Adapter = import_module(f"detectors.formats.adapters.agents.{name}").ADAPTER
    return found


def read_file(file: File, mark: Mark) -> FileRead:
    """Read what is new in a file; one that was cut or replaced is read from its beginning."""
    reader = _Reader(file)
    try:
        if file.path.endswith(".db"):
            mark = reader.read_database(mark)
        elif file.path.endswith((".json", ".gz", ".zst")):
            mark = Mark()
            reader.read_packed()
        else:
            mark = reader.read_lines(mark)
    except (OSError, DetectorError, sqlite3.Error) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        read = reader.result(mark, said or type(error).__name__)
        read.is_tried_again = isinstance(error, OSError)
        return read
    return reader.result(mark)


class _Reader:
    def __init__(self, file: File) -> None:
        self._file = file
        self._name = file.source.adapter or ""
        self._adapter = adapter_of(self._name)
        self._marks = _MARKS[self._name]
        self._state: State = {}
        self._copies = _Copies()
        self._limits: dict[tuple[int, int], Limit] = {}
        self._last_limits: Limits | None = None
        self._unread: Counter[str] = Counter()
        self._repeated: Repeated = set()
        self._project: str | None = None
        parts, within = Path(file.path).parts, file.source.within
        if within in parts:  # the file's folder names the project, and nothing in the file does
            name = parts[parts.index(within) - 1]
            self._project = route_of(name[:8] if len(name) == 64 else name)
        self._bytes = 0

    def read_lines(self, mark: Mark) -> Mark:
        with open(self._file.path, "rb") as file:
            if not mark.offset or _hash_ends(file, mark.offset) != (mark.head, mark.tail):
                mark = Mark()
            self._unread.update(mark.unread)
            self._state = msgspec.msgpack.decode(mark.state) if mark.state else {}
            if "parents" in self._state:
                self._state["parents"] = tuple(self._state["parents"])
            offset = mark.offset
            file.seek(offset)
            rest = b""
            while block := file.read(BLOCK_BYTES):
                self._bytes += len(block)
                *lines, rest = (rest + block).split(b"\n") if rest else block.split(b"\n")
                for line in lines:
                    self._read_line(line)
                offset += sum(map(len, lines)) + len(lines)
                if len(rest) > MAX_LINE_BYTES:
                    raise DetectorError(f"a line is longer than {MAX_LINE_BYTES >> 20} MiB")
            kept: dict[str, Any] = {
                name: _CHECKS.get(name, id_of)(value) if isinstance(value, str) else value
                for name, value in self._state.items()
            }
            if "parents" in kept:
                kept["parents"] = tuple(map(_safe, kept["parents"]))
            state, unread = msgspec.msgpack.encode(kept), dict(self._unread)
            if rest:  # complete perhaps, but without its end; read again when there is more
                self._read_line(rest, is_last=True)
            return Mark(offset, *_hash_ends(file, offset), state, unread)

    def read_packed(self) -> None:
        with open(self._file.path, "rb") as file:
            blocks = read_blocks(file)
            if self._file.path.endswith(".json"):
                self._state = self._adapter.beside(Path(self._file.path))
                first = next(blocks, b"")
                blocks = chain((first,), blocks)
                if first.lstrip()[:1] != b"[":
                    if self._file.size > MAX_LINE_BYTES:
                        raise DetectorError(f"a session has more than {MAX_LINE_BYTES >> 20} MiB")
                    self._read_line(join_document(blocks, MAX_LINE_BYTES))
                    return
                try:
                    for each in chain.from_iterable(split_array(blocks, MAX_LINE_BYTES)):
                        self._read_line(each)
                except CutOffLogError:
                    self._unread[CUT_OFF] += 1
                return
            rest = b""
            for block in blocks:
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    self._read_line(line)
            self._read_line(rest, is_last=True)

    def read_database(self, mark: Mark) -> Mark:
        """Read what opencode has written since a day before the last reading."""
        inode, now = self._file.inode.to_bytes(16, "big"), time.time_ns() // 1_000_000
        if mark.head != inode or mark.offset > now:  # another file, or another time
            mark = Mark()
        name = f"file:{quote(str(Path(self._file.path).resolve()))}?mode=ro"
        with closing(sqlite3.connect(name, uri=True, timeout=5)) as database:
            tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
            for query in (query for table, query in _QUERIES.items() if table in tables):
                rows = database.execute(query + _SINCE, (mark.offset - _DAY_MS,))
                names = [column[0] for column in rows.description]
                for cells in rows:
                    if isinstance(cells[-1], str) and '"tokens"' in cells[-1]:
                        self._read_line(msgspec.json.encode(dict(zip(names, cells, strict=True))))
        self._unread |= Counter(mark.unread)  # of rows that were read twice, one
        return Mark(now, inode, unread=dict(self._unread))

    def _read_line(self, line: bytes, *, is_last: bool = False) -> None:
        for mark in self._marks:
            if mark in line:
                break
        else:
            return
        if self._read_usual(line):
            return
        try:
            row = Row.decode(line)
        except UNREADABLE:
            if line.strip(b"\0 \r") and not is_last:
                self._unread[CUT_OFF] += 1
            return
        if not self._adapter.recognizes(row):
            return
        if self._name == "codex" and (limits := row.inner("payload").raw("rate_limits")):
            with suppress(msgspec.ValidationError):
                self._read_limits(decode_limits(limits), row.get("timestamp"))
        for seen in self._adapter.read(row, self._state):
            if self._name == "cline" and not isinstance(seen, str) and seen.providers[0] in _AGENTS:
                seen = OTHERS if seen.readings else NO_USAGE
            if isinstance(seen, str):
                if seen not in _QUIET:
                    self._unread[seen] += 1
            else:
                self._take(seen, line)

    def _read_usual(self, line: bytes) -> bool:
        """Take the line if it is a usual one; return whether it was."""
        found: Found | tuple[()] | None = None
        if self._name == "claude_code":
            found = read_message(line, self._state, self._repeated)
        elif self._name == "codex" and (turn := read_turn(line, self._state)):
            found, limits, at = turn
            self._read_limits(limits, at)
        if found:
            for _ in self._copies.add(*found):
                pass
        return found is not None

    def _take(self, seen: Sighting, line: bytes) -> None:
        seen.way = self._adapter.title
        if self._project:
            seen.tags = (self._project, *seen.tags)
        calls = calls_of(seen)
        if isinstance(calls, str):
            if calls == NO_MODEL and b'"<synthetic>"' in line:
                calls = SYNTHETIC
            if calls not in _QUIET:
                self._unread[calls] += 1
            return
        for number, call in enumerate(calls):
            if call.request_id is None:
                call.request_id = f"line-{hashlib.sha256(line).hexdigest()[:32]}-{number}"
            if seen.origin is None:
                seen.origin = Origin()
            for _ in self._copies.add(call, seen):
                pass

    def _read_limits(self, limits: Limits | None, at: Any) -> None:
        if limits is None or limits == self._last_limits:
            return
        self._last_limits, seconds = limits, _seconds(at)
        plan = limits.plan_type or ""
        for window in filter(None, (limits.primary, limits.secondary)):
            used, minutes, resets = window.used_percent, window.window_minutes, window.resets_at
            if resets is None and window.resets_in_seconds is not None:
                resets = seconds + window.resets_in_seconds
            if used is None or minutes is None:
                continue
            # To the minute, because a time that is left has whole seconds only.
            ends = round(_seconds(resets) / 60) * 60
            minutes = to_full_hours(minutes)
            self._limits[minutes, ends] = Limit(
                "codex", minutes, ends, used, plan if plan.isidentifier() else "", seconds
            )

    def result(self, mark: Mark, problem: str = "") -> FileRead:
        copies, safe = self._copies, cache(_safe)
        # IDs are anybody's texts; one that doesn't look like an ID is replaced by its hash.
        found = [
            (safe(name), way, safe(asked), at, prompt, safe(session), *rest)
            for name, way, asked, at, prompt, session, *rest in copies.found
        ]
        sessions = {
            _safe(name): Origin(
                place=each.place,
                session=_safe(each.session),
                parents=tuple(map(_safe, each.parents)),
                begun=each.begun,
            )
            for name, each in copies.sessions.items()
        }
        ends = {_safe(name): at for name, at in copies.ends.items()}
        return FileRead(
            self._file, mark, found, sessions, ends,
            list(self._limits.values()), dict(self._unread), self._bytes, problem,
        )  # fmt: skip


def _safe(name: str | None) -> str:
    return id_of(name) or ""


@lru_cache(maxsize=64)  # a window's end is logged with each turn
def _seconds(value: Any) -> int:
    """Return a time in seconds since 1970, whatever its unit; 0 for what is no time."""
    moment = find_moment(value)
    return int(moment.timestamp()) if moment else 0


# What these are has a form of its own; all other texts are IDs.
_CHECKS: Final[Mapping[str, Callable[[Any], str | None]]] = {"model": find_model, "route": find_tag}


def _hash_ends(file: Any, offset: int) -> tuple[bytes, bytes]:
    """Return hashes of the file's beginning and of what is before the offset."""
    file.seek(0)
    head = hashlib.sha256(file.read(min(_MARK_BYTES, offset))).digest()
    file.seek(max(0, offset - _MARK_BYTES))
    return head, hashlib.sha256(file.read(min(_MARK_BYTES, offset))).digest()
