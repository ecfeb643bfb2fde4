"""The ledger of one machine: every call of its coding agents once, however often it was logged.

A SQLite file with a write-ahead log. `seen` has the copies of calls as `Once` compares them,
`calls` what they are, and `files` how far each file was read; what is read of some files and how
far is one transaction, so that a kill at any time loses and repeats nothing. No text is in it.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from detectors.agents.copies import Rates
    from detectors.agents.files import FileRead

VERSION: Final = 1
KEPT_DAYS: Final = 400
MOST_MINUTES: Final = 60 * 24 * 31  # of a plan's window, and the most used of it
MOST_PERCENT: Final = 1_000
_FIRST_SECOND, _LAST_SECOND = 946_684_800, 4_102_444_800  # of 2000, and after 2099
_BUSY_SECONDS: Final = 10.0
_CACHE_KIB: Final = 16_384
_DAY_US: Final = 86_400_000_000

_SCHEMA: Final = """
CREATE TABLE files (path TEXT PRIMARY KEY, agent TEXT, folder TEXT, size INTEGER, mtime INTEGER,
    inode INTEGER, mark BLOB, unread TEXT, problem TEXT) WITHOUT ROWID;
CREATE TABLE seen (id TEXT, way TEXT, asked TEXT, at INTEGER, prompt TEXT, session TEXT,
    size INTEGER, number INTEGER, times INTEGER, span INTEGER, body BLOB, agent TEXT,
    PRIMARY KEY (id, way, asked, at, prompt, session)) WITHOUT ROWID;
CREATE TABLE sessions (name TEXT PRIMARY KEY, origin BLOB, ended INTEGER) WITHOUT ROWID;
CREATE TABLE calls (number INTEGER PRIMARY KEY, id TEXT, at INTEGER, agent TEXT, project TEXT,
    is_subagent INTEGER, session TEXT, provider TEXT, model TEXT, tier TEXT, region TEXT,
    is_metered INTEGER, prompt INTEGER, completion INTEGER, cached INTEGER, written INTEGER,
    written_1h INTEGER, reasoning INTEGER, searches INTEGER, reported REAL, usd REAL, body BLOB,
    changed INTEGER, sent INTEGER);
CREATE INDEX calls_id ON calls (id);
CREATE INDEX calls_at ON calls (at);
CREATE INDEX calls_unpriced ON calls (number) WHERE usd IS NULL;
CREATE INDEX calls_unsent ON calls (changed) WHERE sent IS NULL;
CREATE TABLE limits (agent TEXT, minutes INTEGER, resets_at INTEGER, used REAL, peak REAL,
    plan TEXT, at INTEGER, PRIMARY KEY (agent, minutes, resets_at)) WITHOUT ROWID;
CREATE TABLE rates (provider TEXT, model TEXT, tier TEXT, region TEXT, cells BLOB,
    PRIMARY KEY (provider, model, tier, region)) WITHOUT ROWID;
CREATE TABLE batches (key TEXT PRIMARY KEY, calls INTEGER, body BLOB) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_SEE: Final = """
INSERT INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)
ON CONFLICT DO UPDATE SET times = times + 1,
    body = CASE WHEN (excluded.size, length(excluded.body), excluded.body)
        > (size, length(body), body) THEN excluded.body ELSE body END,
    size = max(size, excluded.size)
"""
_TOUCHED: Final = """
SELECT seen.id, way, asked, at, prompt, session, size, number, times, span, body, agent
FROM touched CROSS JOIN seen USING (id) ORDER BY touched.id, at, prompt, session, asked, way
"""
# A cross join reads the calls of the IDs, and not all.
_HAD: Final = "SELECT id, number FROM touched CROSS JOIN calls USING (id)"
_SET_CALL: Final = """
INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    NULL)
ON CONFLICT DO UPDATE SET id = excluded.id, at = excluded.at, agent = excluded.agent,
    project = excluded.project, is_subagent = excluded.is_subagent, session = excluded.session,
    provider = excluded.provider, model = excluded.model, tier = excluded.tier,
    region = excluded.region, is_metered = excluded.is_metered, prompt = excluded.prompt,
    completion = excluded.completion, cached = excluded.cached, written = excluded.written,
    written_1h = excluded.written_1h, reasoning = excluded.reasoning,
    searches = excluded.searches, reported = excluded.reported, usd = excluded.usd,
    changed = excluded.changed, body = excluded.body,
    sent = CASE WHEN (excluded.id, excluded.at, excluded.model, excluded.tier, excluded.prompt,
            excluded.completion, excluded.cached, excluded.written, excluded.written_1h,
            excluded.searches, excluded.region, excluded.is_metered)
        = (id, at, model, tier, prompt, completion, cached, written, written_1h, searches, region,
            is_metered) THEN sent END
WHERE excluded.body <> body
"""
# A call that was sent is sent again if what it costs has changed, as while a message grows: the
# larger counts stay. Which session had it first may change often until all files are read.
_LIMIT: Final = """
INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    used = CASE WHEN excluded.at >= at THEN excluded.used ELSE used END,
    plan = CASE WHEN excluded.at >= at THEN excluded.plan ELSE plan END,
    peak = max(peak, excluded.peak), at = max(at, excluded.at)
"""
_SESSION: Final = """
INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
    origin = coalesce(excluded.origin, origin), ended = max(ended, excluded.ended)
"""


class Ledger:
    """The open ledger. `changing` is a transaction that writes, of one process at a time."""

    def __init__(self, path: Path | str) -> None:
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self.database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        self.database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if self.database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            self.database.execute("PRAGMA journal_mode = WAL")
            with self.changing():
                version = self.database.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    raise sqlite3.DatabaseError("a newer version of Tallystick wrote this ledger")
                if not version:
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        self.database.execute(statement)
                    self.database.execute(f"PRAGMA user_version = {VERSION}")
            if str(path) != ":memory:":
                Path(path).chmod(0o600)
        self.database.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def get(self, name: str) -> str:
        found = self.database.execute("SELECT value FROM settings WHERE name = ?", (name,))
        row = found.fetchone()
        return row[0] if row else ""

    def put(self, name: str, value: str) -> None:
        self.database.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def has_unpriced(self) -> bool:
        query = "SELECT 1 FROM calls WHERE usd IS NULL LIMIT 1"
        return self.database.execute(query).fetchone() is not None

    def known_files(self) -> dict[str, tuple[int, int, int]]:
        """Return the size, time and inode of every file that was read."""
        rows = self.database.execute("SELECT path, size, mtime, inode FROM files")
        return {row[0]: row[1:] for row in rows}

    def find_mark(self, path: str) -> bytes | None:
        """Return where the reading of a file ended."""
        row = self.database.execute("SELECT mark FROM files WHERE path = ?", (path,)).fetchone()
        return row[0] if row else None

    def add(self, reads: "Sequence[FileRead]", rates: "Rates | None" = None) -> int:
        """Add what was read of some files; return the number of calls that are new or changed.

        With `rates`, these calls are priced at once.
        """
        import msgspec

        from detectors.agents.copies import encode_origin

        with self.changing():
            number = int(self.get("number") or 0)
            kept_since = int(self.get("kept_since") or 0)
            touched: set[str] = set()
            for read in reads:
                agent = read.file.source.agent
                rows = []
                for row in read.copies:
                    if row[3] < kept_since:
                        continue  # it was forgotten, and is still in its file
                    number += 1
                    rows.append((*row[:7], number, *row[8:], agent))
                    touched.add(row[0])
                self.database.executemany(_SEE, rows)
                origins = {name: encode_origin(each) for name, each in read.sessions.items()}
                self.database.executemany(
                    _SESSION,
                    [
                        (name, origins.get(name), read.ends.get(name, 0))
                        for name in origins.keys() | read.ends.keys()
                    ],
                )
                self.put_limits(
                    (
                        limit.agent,
                        limit.window_minutes,
                        limit.resets_at,
                        limit.used_percent,
                        limit.used_percent,
                        limit.plan,
                        limit.at,
                    )
                    for limit in read.limits
                )
                self.database.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        read.file.path, agent, str(read.file.source.folder), read.file.size,
                        0 if read.is_tried_again else read.file.mtime_ns, read.file.inode,
                        msgspec.msgpack.encode(read.mark),
                        msgspec.json.encode(read.unread).decode(), read.problem,
                    ),
                )  # fmt: skip
            self.put("number", str(number))
            changed = self._resolve(touched, rates)
            if rates is not None:
                rates.save()
            return changed

    def put_limits(self, limits: Iterable[Sequence[Any]]) -> None:
        """Set windows of plans: agent, minutes, reset, used and highest percentage, plan, time.

        Windows that the service would refuse are dropped.
        """
        possible = list[Sequence[Any]]()
        for limit in limits:
            _, minutes, resets_at, used, peak, *_ = limit
            if (
                1 <= minutes <= MOST_MINUTES
                and _FIRST_SECOND <= resets_at < _LAST_SECOND
                and 0 <= min(used, peak) <= max(used, peak) <= MOST_PERCENT
            ):
                possible.append(limit)
        self.database.executemany(_LIMIT, possible)

    def _resolve(self, touched: set[str], rates: "Rates | None") -> int:
        """Compare the copies of these calls again, and set the calls that they are."""
        if not touched:
            return 0
        from detectors.agents.copies import Resolver

        database = self.database
        database.execute("CREATE TEMP TABLE IF NOT EXISTS touched (id TEXT PRIMARY KEY)")
        database.execute("DELETE FROM touched")
        database.executemany("INSERT INTO touched VALUES (?)", [(each,) for each in touched])
        sessions = database.execute("SELECT name, origin, ended FROM sessions")
        resolver = Resolver(sessions, rates)
        before: dict[str, set[int]] = {}
        for id_, number in database.execute(_HAD):
            before.setdefault(id_, set()).add(number)
        now = time.time_ns() // 1_000
        rows, gone = list[tuple[Any, ...]](), list[tuple[int]]()
        for id_, group in groupby(database.execute(_TOUCHED), itemgetter(0)):
            copies = list(group)
            calls = resolver.resolve(id_, copies, now)
            rows += calls
            gone += [(each,) for each in before.get(id_, set()) - {call[0] for call in calls}]
        before_rows = database.total_changes
        database.executemany("DELETE FROM calls WHERE number = ?", gone)
        database.executemany(_SET_CALL, rows)
        return database.total_changes - before_rows

    def forget(self, before_us: int) -> None:
        """Delete calls that are older than the ledger keeps them."""
        with self.changing():
            for table in ("seen", "calls"):
                self.database.execute(f"DELETE FROM {table} WHERE at < ?", (before_us,))  # noqa: S608
            self.database.execute("DELETE FROM limits WHERE at < ?", (before_us // 1_000_000,))
            self.put("kept_since", str(before_us))

    def forget_old(self, days: int = KEPT_DAYS) -> None:
        """Delete old calls, at most once a day."""
        now = time.time_ns() // 1_000
        if abs(now - int(self.get("forgotten") or 0)) > _DAY_US:
            self.forget(now - days * _DAY_US)
            self.put("forgotten", str(now))
