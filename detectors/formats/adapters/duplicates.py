"""Yields each call of some logs once, whatever the order of the files.

An agent logs a message several times while it grows, forks and backups repeat it, and exports have
pages in common. Of the copies of one call that with the larger counts stays, at the time and in the
session of the original, so such calls are known only at the end. They wait in a temporary database,
which SQLite keeps in memory up to `_CACHE_KIB` and then on disk. A gateway's rows may also repeat
the calls of an agent, of another gateway, or of requests that are logged with their responses.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from detectors.formats.adapters.calls import (
    Call,
    Origin,
    Sighting,
    encode_call,
    find_moment,
)
from detectors.formats.adapters.labels import id_of, is_response_id
from detectors.formats.moments import EPOCH, MICROSECOND

WINDOW: Final = 1_000_000  # identities of requests in memory; more are on disk
_CACHE_KIB: Final = 16_384
_BATCH: Final = 2_000
_MINUTE_US: Final = 60_000_000
_LONGEST_MESSAGE_US: Final = 10 * _MINUTE_US
# A fork writes the turns that it copies at once; the first answer of a session takes longer.
_COPIED_AT_ONCE_US: Final = 1_000_000
_COPIED_SOON_US: Final = 5_000_000
_DAY: Final = timedelta(days=1)  # in which an answer is read again
_LATE_PROMPTS: Final = 2  # of a message: before it is complete, and then
_SEVERAL: Final = -1  # instead of the time of a request
_DEEPEST: Final = 100  # spans without tokens between a call and the sum of it

DUPLICATE_ROW: Final = "calls logged more than once"
SNAPSHOT: Final = "partial snapshots of a message"
SUMS: Final = "sums of calls that other rows count"

_SCHEMA: Final = """
CREATE TABLE seen (
    id TEXT, way TEXT, asked TEXT, at INTEGER, prompt TEXT, session TEXT, size INTEGER,
    number INTEGER, times INTEGER, span INTEGER, body BLOB,
    PRIMARY KEY (id, way, asked, at, prompt, session)) WITHOUT ROWID;
CREATE TABLE once (number INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE rows (hash INTEGER PRIMARY KEY);
CREATE TABLE answers (hash INTEGER PRIMARY KEY, at INTEGER);
CREATE TABLE spans (hash INTEGER PRIMARY KEY, parent INTEGER, size INTEGER, is_call INTEGER);
CREATE TABLE sums (hash INTEGER PRIMARY KEY);
"""
_SEE: Final = """
INSERT INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
ON CONFLICT DO UPDATE SET times = times + 1,
    body = CASE WHEN (excluded.size, length(excluded.body), excluded.body)
        > (size, length(body), body) THEN excluded.body ELSE body END,
    size = max(size, excluded.size)
"""
_BY_ID: Final = """
SELECT id, way, asked, at, prompt, session, size, number, times, span, body FROM seen
ORDER BY id, at, prompt, session, asked, way
"""
# Of an answer's ID that several requests have.
_ANSWER: Final = """
INSERT INTO answers VALUES (?, ?) ON CONFLICT DO UPDATE SET at = min(-1, excluded.at)
"""
_ROW: Final = "SELECT hash FROM rows WHERE hash = ?"
_SUM: Final = "SELECT hash FROM sums WHERE hash = ?"
_ANSWERED: Final = "SELECT at FROM answers WHERE hash = ?"
_NOTE: Final = """
INSERT INTO spans VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET size = max(size, excluded.size)
"""
# Spans with the tokens of the calls inside: all that are not calls, and calls with just as many.
_FIND_SUMS: Final = """
WITH RECURSIVE up (size, at, depth) AS (
    SELECT size, parent, 0 FROM spans WHERE size > 0
    UNION ALL
    SELECT up.size, spans.parent, depth + 1 FROM up JOIN spans ON hash = at
    WHERE spans.size = 0 AND depth < ?)
INSERT INTO sums SELECT hash FROM up JOIN spans ON hash = at WHERE spans.size > 0
GROUP BY hash HAVING NOT is_call OR sum(up.size) = spans.size
"""
encode_copy: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Call).decode


class Seen(NamedTuple):
    """A copy of a call, or several that are equal; `prompt` is "" where it has no tokens yet."""

    id: str
    way: str
    asked: str
    at: int  # microseconds since 1970
    prompt: str
    session: str
    size: int
    number: int
    times: int
    span: int
    body: bytes

    @property
    def is_row(self) -> bool:
        return self.asked == str(self.at)


# The copies of a call, and whether their ID is its own.
Split = tuple[list[Seen], bool]


class TakenCall(NamedTuple):
    call: Call
    line: bytes


class Once:
    """Takes the calls of some logs and yields each once; counts the others in `dropped`."""

    def __init__(self, dropped: Counter[str]) -> None:
        self._dropped = dropped
        self._rows: set[int] = set()
        self._answers: dict[int, int] = {}  # the time of the request that has an answer's ID
        self._has_spilled = False
        self._pending: list[tuple[Any, ...]] = []
        self._database: sqlite3.Connection | None = None
        self._sessions: dict[str, Origin] = {}
        self._ends: dict[str, int] = {}  # the last call of each session
        self._number = 0

    def note(self, found: Iterable[Sighting | str]) -> None:
        """Remember what spans of a trace are in which, so that sums of calls aren't counted."""
        for seen in found:
            if isinstance(seen, str) or seen.span is None or seen.span.name == seen.span.parent:
                continue
            name, parent, is_call = seen.span
            size = sum(each.prompt + each.completion for each in seen.readings[:1])
            self._open().execute(_NOTE, (hash(name), hash(parent), size, is_call))

    def add(self, call: Call, seen: Sighting) -> Iterator[TakenCall]:
        """Yield the call if it is new, unless its copies have to be compared first."""
        if seen.origin is not None and call.request_id is not None:
            origin, usage = seen.origin, call.usage
            asked, at = origin.asked, _microseconds(call.ts)
            details = usage.prompt_tokens_details
            parts = (details.cached_tokens, details.cache_write_tokens) if details else ()
            prompt = f"{usage.prompt_tokens} {parts}" if usage.prompt_tokens else ""
            session = origin.session or call.session_id or ""
            if at > self._ends.get(session, 0):
                self._ends[session] = at
            if origin.place is not None:
                self._sessions[session] = origin
            elif origin.is_row:
                asked = str(at)
            self._number += 1
            body = encode_copy(call)
            span = hash(seen.span.name) if seen.span else 0
            size = usage.prompt_tokens + usage.completion_tokens
            name = origin.place or origin.name or call.request_id
            self._pending.append(
                (name, seen.way, asked, at, prompt, session, size, self._number, span, body)
            )
            if len(self._pending) >= _BATCH:
                self._flush()
        elif self._is_new(call, seen.created):
            yield TakenCall(call, encode_call(call))
        else:
            self._dropped[DUPLICATE_ROW] += 1

    def close(self) -> Iterator[TakenCall]:
        self._flush()
        if self._database is None:
            return
        with closing(self._database) as database:
            database.execute(_FIND_SUMS, (_DEEPEST,))
            copies = map(Seen._make, database.execute(_BY_ID))
            for _, group in groupby(copies, attrgetter("id")):
                database.executemany("INSERT INTO once VALUES (?, ?)", self._resolve(list(group)))
            for (body,) in database.execute("SELECT body FROM once ORDER BY number"):
                call = _decode(body)
                yield TakenCall(call, encode_call(call))
        self._database = None

    def _is_new(self, call: Call, created: Any) -> bool:
        """Check whether no equal call of this ID at this time came before, and remember it.

        A response that was read several times says when it was created, unless that is made up.
        """
        if call.request_id is None:
            return True
        usage, details = call.usage, call.usage.prompt_tokens_details
        cached = (details.cached_tokens, details.cache_write_tokens) if details else ()
        counts = (usage.prompt_tokens, usage.completion_tokens, cached)
        at = find_moment(created)
        if at is None or abs(call.ts - at) > _DAY:
            at = call.ts
        number = hash((call.request_id, at, call.model, call.service_tier, counts))
        if number in self._rows or (self._has_spilled and self._find(_ROW, number) is not None):
            return False
        self._rows.add(number)
        if is_response_id(call.provider, call.request_id):
            answer = hash(call.request_id)
            is_first = answer not in self._answers
            self._answers[answer] = _microseconds(call.ts) if is_first else _SEVERAL
        if len(self._rows) + len(self._answers) >= WINDOW:
            rows = ((each,) for each in sorted(self._rows))
            self._open().executemany("INSERT OR IGNORE INTO rows VALUES (?)", rows)
            answers = ((each, self._answers[each]) for each in sorted(self._answers))
            self._open().executemany(_ANSWER, answers)
            self._rows, self._answers, self._has_spilled = set(), {}, True
        return True

    def _find(self, query: str, number: int) -> int | None:
        found: tuple[int] | None = self._open().execute(query, (number,)).fetchone()
        return found and found[0]

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            # A database without a name is temporary; only what its cache can't hold is on disk.
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._database.execute("PRAGMA journal_mode = OFF")
            self._database.executescript(_SCHEMA)
        return self._database

    def _flush(self) -> None:
        if self._pending:
            self._open().executemany(_SEE, self._pending)
            self._pending = []

    def _resolve(self, group: list[Seen]) -> Iterator[tuple[int, bytes]]:
        """Yield the calls of one ID, each with the number of its first copy."""
        is_turn = group[0].session in self._sessions
        splits = list(self._split_turns(group)) if is_turn else _split_ways(group)
        for copies, is_named in splits:
            # The call is the one with the most counts, at the time and in the session of the first.
            # Of equal ones, a session that ended earlier had it first.
            original = min(
                copies,
                key=lambda seen: (
                    *(self._is_copy(seen), seen.at, not seen.session),
                    *(self._ends.get(seen.session, 0), seen.session),
                ),
            )
            source = original.way, original.session
            own = {(seen.at, seen.size) for seen in copies if (seen.way, seen.session) == source}
            copied = sum(seen.times for seen in copies) - len(own)
            if len(own) > 1:
                self._dropped[SNAPSHOT] += len(own) - 1
            if copied:
                self._dropped[DUPLICATE_ROW] += copied
            # Of equal ones, that with parts of its prompt; and a gateway knows who is paid.
            fullest = max(
                copies, key=lambda seen: (seen.size, len(seen.prompt), seen.is_row, seen.at)
            )
            first, call = _decode(original.body), _decode(fullest.body)
            call.ts, call.tag = first.ts, first.tag or call.tag
            sessions = [seen.session for seen in copies if seen.session]
            call.session_id = first.session_id or min(sessions, default=None)
            if original.session in self._sessions:
                call.request_id = first.request_id  # a copy has its own
            if len(splits) == 1:  # of a request that was written already, with this response?
                request = hash(call.request_id)
                spilled = self._find(_ANSWERED, request) if self._has_spilled else None
                at = self._answers.get(request, spilled)
                begin, end = _span(copies)
                if (
                    at is not None
                    and (spilled is None or request not in self._answers)
                    and begin - _MINUTE_US <= at <= end + _MINUTE_US
                ):
                    self._dropped[DUPLICATE_ROW] += 1
                    continue
            if original.span and self._find(_SUM, original.span) is not None:
                self._dropped[SUMS] += 1
                continue
            if not is_named and call.request_id is not None:
                call.request_id = id_of(f"{call.request_id}:{original.at}")
            yield min(seen.number for seen in copies), encode_copy(call)

    def _is_copy(self, seen: Seen) -> bool:
        """Check for a turn that its session has copied, because it is older than the session."""
        origin = self._sessions.get(seen.session)
        if origin is None or not origin.parents or origin.begun is None:
            return False
        return seen.at < _microseconds(origin.begun) + _COPIED_AT_ONCE_US

    def _split_turns(self, group: list[Seen]) -> Iterator[Split]:
        """Yield the copies of each turn at one place of some sessions.

        A session that was forked begins with the turns of the session before it. Those are copies;
        an equal turn of its own, such as the first of two sub-agents, is a call.
        """
        calls: dict[str, list[Seen]] = {}
        copies: list[tuple[list[str], Seen]] = []
        for seen in group:
            ancestors: list[str] = []  # the sessions that it was forked from, the nearest first
            waiting = [seen.session]
            while waiting:
                origin = self._sessions.get(waiting.pop(0))
                new = [name for name in (origin.parents if origin else ()) if name not in ancestors]
                ancestors += [name for name in new if name != seen.session]
                waiting += ancestors[-len(new) :] if new else []
            begun = self._sessions[seen.session].begun
            before = [other.at for other in group if other.session in ancestors]
            is_soon = begun is not None and seen.at <= _microseconds(begun) + _COPIED_SOON_US
            if self._is_copy(seen) or seen.at in before or (before and is_soon):
                copies.append((ancestors, seen))
            else:
                calls.setdefault(seen.session, []).append(seen)
        for ancestors, seen in copies:
            found = next((name for name in ancestors if name in calls), None)
            if found is None and not self._sessions.keys() >= set(ancestors):
                found = next(iter(calls), None)  # a session between them is not among the logs
            calls.setdefault(found or ancestors[-1], []).append(seen)
        yield from ((same, True) for same in calls.values())


def _microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // MICROSECOND


def _split_ways(group: list[Seen]) -> list[Split]:
    """Return the copies of each call that has this ID, from whatever sources.

    A provider's ID of a response is that of one call, if each source has one at most and all are
    within a minute. If a source has several, only calls with equal counts are one.
    """
    ways: dict[str, list[Seen]] = {}
    for seen in group:
        ways.setdefault(seen.way, []).append(seen)
    splits = [list(_split(ways[way])) for way in sorted(ways)]
    found = [each for split in splits for each in split]
    if len(splits) == 1 or not any(
        is_response_id(_decode(seen.body).provider, seen.id) for seen in group
    ):
        return found
    is_one = len(splits) == len(found)
    joined: list[Split] = []
    for copies, is_named in found:
        way, size = copies[0].way, max(seen.size for seen in copies)
        first, last = _span(copies)
        near = (
            index
            for index, (others, _) in enumerate(joined)
            if all(seen.way != way for seen in others)
            and (is_one or max(seen.size for seen in others) == size)
            # At most a minute apart; an agent logs an answer, not its request.
            and max(first, _span(others)[0]) - min(last, _span(others)[1]) <= _MINUTE_US
        )
        index = next(near, None)
        if index is None:
            joined.append((copies, is_named))
        else:
            joined[index] = [*joined[index][0], *copies], is_named or joined[index][1]
    return joined


def _span(copies: list[Seen]) -> tuple[int, int]:
    ends = (seen.at + round((_decode(seen.body).latency_ms or 0) * 1_000) for seen in copies)
    return min(seen.at for seen in copies), max(ends)


def _split(group: list[Seen]) -> Iterator[Split]:
    """Yield the copies of each call that has this ID in one source.

    Some proxies give every answer the same ID. So it names a call only together with the request's
    ID, and never calls whose times or prompts no single message can have.
    """
    by_asked: dict[str, list[Seen]] = {}
    for seen in group:
        by_asked.setdefault(seen.asked, []).append(seen)
    for seen in by_asked.pop("", []):  # of a request that is named on other lines, perhaps
        near = [
            same
            for asked, same in by_asked.items()
            if asked
            and any(
                seen.prompt in ("", each.prompt) and abs(seen.at - each.at) < _MINUTE_US
                for each in same
            )
        ]
        (near[0] if len(near) == 1 else by_asked.setdefault("", [])).append(seen)
    for asked in sorted(by_asked):
        same = sorted(by_asked[asked], key=lambda seen: seen.at)
        # Copies of one message, whose prompt may become known late, or several calls.
        prompts = len({seen.prompt for seen in same if seen.prompt})
        is_short = same[-1].at - same[0].at <= _LONGEST_MESSAGE_US
        if (prompts <= 1 and (is_short or asked)) or (
            is_short and asked and prompts <= _LATE_PROMPTS
        ):
            yield same, True
        else:
            yield from ((each, False) for each in _split_by_prompt(same))


def _split_by_prompt(same: list[Seen]) -> Iterator[list[Seen]]:
    latest: dict[str, list[Seen]] = {}
    calls: list[list[Seen]] = []
    unknown: list[Seen] = []
    for seen in same:
        copies = latest.get(seen.prompt, [])
        if not seen.prompt:
            unknown.append(seen)
        elif copies and seen.at - copies[-1].at < _MINUTE_US:
            copies.append(seen)
        else:
            near = [each for each in unknown if seen.at - each.at < _MINUTE_US]
            latest[seen.prompt] = [*near, seen]
            unknown = []
            calls.append(latest[seen.prompt])
    yield from calls
    if unknown:
        yield unknown
