"""`pull_connection`: pull the reports of a connection that are due, window by window.

Each window is one transaction that replaces the rows of its buckets, writes a row about the pull
and moves the connection's progress. So a killed job repeats a window and doubles none, and the
next job goes on where it ended.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Engine

from service.config import Config
from service.connections import list_providers
from service.connections.client import (
    ConnectionFailedError,
    Fetched,
    MissingRightError,
    RevokedKeyError,
    ThrottledError,
    UnreadableResponseError,
    fetch_window,
    find_url,
    open_client,
)
from service.connections.provider import (
    ACTIVITY,
    BOTH,
    COSTS,
    DAY,
    HOUR,
    USAGE,
    ActivityLine,
    Asking,
    CostLine,
    Line,
    Provider,
    UsageLine,
    Window,
)
from service.core.db import make_engine
from service.core.logs import get_logger
from service.core.telemetry.counters import PULLS
from service.core.tokens import hash_person
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.base import utc_now
from service.models.connections.connections import (
    LostConnectionError,
    claim_connection,
    release,
    release_compared,
    release_failed,
)
from service.models.connections.reported import (
    DONE,
    EMPTY,
    PERSON,
    ReportedActivity,
    ReportedCost,
    ReportedUsage,
    Table,
    add_pull,
    delete_hours,
    replace_rows,
    retire_names,
    save_names,
)
from service.operations.connections.comparing import Claim, Comparison
from service.operations.connections.plan import (
    advance,
    find_next,
    floor,
    list_windows,
    needs_names,
)
from service.operations.connections.rows import Prices, make_row

# Then another job goes on, so that the worker gets to its notices.
_JOB_SECONDS: Final = 30.0
_HOURS_KEPT: Final = 7 * DAY

_TABLES: Final[Mapping[str, Sequence[Table]]] = {
    USAGE: (ReportedUsage,),
    COSTS: (ReportedCost,),
    BOTH: (ReportedUsage, ReportedCost),
    ACTIVITY: (ReportedActivity,),
}
_LINES: Final[Mapping[Table, type[Line]]] = {
    ReportedUsage: UsageLine,
    ReportedCost: CostLine,
    ReportedActivity: ActivityLine,
}
Rows = dict[Table, list[dict[str, Any]]]

_log = get_logger(__name__)


def pull_connection(connection_id: str) -> None:
    config = Config.load()
    engine = make_engine(config)
    try:
        pull(config, engine, connection_id)
    finally:
        engine.dispose()


def pull(
    config: Config, engine: Engine, connection_id: str, *, seconds: float = _JOB_SECONDS
) -> None:
    """Pull what is due until the time is over, the worker stops or something fails."""
    held = transact(engine, partial(claim_connection, connection_id=connection_id))
    if held is None:
        _log.info("pull_not_claimed", connection_id=connection_id)
        return
    provider, claim = list_providers()[held.provider], Claim(engine, held)
    ends_at, now, failed = time.monotonic() + seconds, utc_now(), dict[str, Any]()
    try:
        url = find_url(config.connection_urls, provider.name)
        comparison = Comparison(claim, provider, config.rollup_retention_days)
        with open_client(provider, held.key, url) as client:
            if held.is_active and config.connections == "on":
                job = _Pull(claim, provider, client, comparison.prices, config.secret_key)
                _pull_and_compare(job, comparison, ends_at, now)
            else:
                _compare(claim, comparison, ends_at, now)
    except LostConnectionError:
        _log.warning("pull_lost", connection_id=connection_id)
    except ConnectionFailedError as error:
        _log.warning("pull_failed", connection_id=connection_id, reason=error.code)
        wait = error.seconds if isinstance(error, ThrottledError) else 0.0
        failed = {"error": error.code, "seconds": max(wait, provider.pause_seconds)}
    except Exception:
        failed = {"error": "internal"}
        raise
    finally:
        if failed:
            with suppress(LostConnectionError):
                transact(engine, partial(release_failed, held=held, **failed))


def _pull_and_compare(job: "_Pull", comparison: Comparison, ends_at: float, now: datetime) -> None:
    """Pull what is due, and compare the account's spend, also where the provider fails."""
    try:
        next_at = job.pull_due(ends_at, now)
    except ConnectionFailedError:
        comparison.compare(ends_at, now)
        raise
    if not comparison.compare(ends_at, now):
        next_at = now
    if next_at > now:
        comparison.conclude(now, is_whole=True)
    transact(job.claim.engine, partial(release, held=job.claim.row, next_pull_at=next_at))


def _compare(claim: Claim, comparison: Comparison, ends_at: float, now: datetime) -> None:
    """Only compare the account's spend: a removed connection whose reports are kept has no key.

    So does one of an installation whose operator has turned connections off; an hour later, it may
    be on again. What is to be pulled then, is missing.
    """
    held = claim.row
    next_at: datetime | None = now
    if comparison.compare(ends_at, now):
        comparison.conclude(now, is_whole=not held.is_active)
        next_at = now + HOUR if held.is_active else None
    transact(claim.engine, partial(release_compared, held=held, next_pull_at=next_at))


class _Pull:
    """One job's part of a pull."""

    def __init__(
        self,
        claim: Claim,
        provider: Provider,
        client: Asking,
        prices: Prices,
        secret_key: str,
    ) -> None:
        self.claim, self._held = claim, claim.row
        self._provider, self._client = provider, client
        self._prices, self._secret_key = prices, secret_key

    def pull_due(self, ends_at: float, now: datetime) -> datetime:
        """Return when the next pull is due: at once, if the time was over before this one ended."""
        reports, since = self._provider.reports, self._held.created_at
        while due := list_windows(reports, self.claim.progress, now, since):
            if time.monotonic() >= ends_at or is_stop_requested():
                return now
            self._pull_window(due[0], now)
        if self._held.keeps_names and needs_names(self.claim.progress, now):
            self._pull_names(now)
        return find_next(reports, self.claim.progress, now)

    def _pull_window(self, window: Window, now: datetime) -> None:
        report, name = window.report, window.report.name
        began_at, before, outcome = utc_now(), self._client.requests, DONE
        # A better report whose answer is an error is none: it may have been retired.
        is_better = bool(report.instead_of)
        try:
            fetched = fetch_window(self._client, self._provider, window)
        except ConnectionFailedError as error:
            # The key may read other reports. It is asked again when this one is due again.
            is_missing = isinstance(error, MissingRightError) and report.is_optional
            is_none = isinstance(error, MissingRightError | UnreadableResponseError)
            if not is_missing and not (is_better and is_none):
                PULLS.labels(self._provider.name, error.code).inc()
                row = self._pull_row(window, began_at, before, error.code, 0)
                self.claim.do(lambda connection: add_pull(connection, **row))
                raise
            fetched, outcome = Fetched((), 0, is_empty=True), MissingRightError.code
        if fetched.is_empty and outcome == DONE:
            outcome = MissingRightError.code if is_better else EMPTY
        state = advance(self.claim.progress, window, now, self._held.created_at)[name]
        if outcome == MissingRightError.code:  # ask for no older windows of it
            state = {key: value for key, value in state.items() if key != "back"}
            state["at"] = now.isoformat()
        row = self._pull_row(window, began_at, before, outcome, len(fetched.lines))
        # The rows by table, also of a table that gets none in place of its old ones.
        report, keeps_names = window.report, self._held.keeps_names
        owner = {"account_id": self._held.account_id, "connection_id": self._held.id}
        shared = {**owner, "report": report.name}
        rows: Rows = {table: [] for table in _TABLES[report.kind]}
        for line in fetched.lines:
            cells = {**shared, **make_row(line, self._prices, keeps_names=keeps_names)}
            if isinstance(line, ActivityLine):
                cells["person_id"] = self._hash(cells.pop("person"))
            table = next(each for each in rows if isinstance(line, _LINES[each]))
            rows[table].append({**cells, "is_hourly": report.width == HOUR})
        store = partial(self._store, window=window, rows=rows, fetched=fetched, pull=row)
        self.claim.do(store, **{name: state})
        PULLS.labels(self._provider.name, outcome).inc()

    def _store(
        self,
        connection: Connection,
        window: Window,
        rows: Rows,
        fetched: Fetched,
        pull: dict[str, Any],
    ) -> None:
        if not fetched.is_empty:
            within = (window.first, window.last)
            # A day's rows are of one report, also after the key may read a better one.
            others = set[str]()
            for other in self._provider.reports:
                if window.report.name in (other.instead_of, other.name):
                    others |= {other.name, other.instead_of or window.report.name}
            for table, found in rows.items():
                for name in others - {window.report.name}:
                    replace_rows(connection, table, self._held.id, name, within, [])
                replace_rows(connection, table, self._held.id, window.report.name, within, found)
            if self._held.shows_people:
                owner = {"connection_id": self._held.id, "account_id": self._held.account_id}
                named = {**owner, "kind": PERSON, "parent_id": "", "is_active": True}
                lines = (line for line in fetched.lines if isinstance(line, ActivityLine))
                people = sorted({line.person for line in lines})
                names = [{**named, "name_id": self._hash(each), "name": each} for each in people]
                save_names(connection, names)
        if window.report.width == HOUR and window.last is None:
            delete_hours(connection, self._held.id, floor(utc_now(), HOUR) - _HOURS_KEPT)
        add_pull(connection, **pull)

    def _hash(self, person: str) -> str:
        return hash_person(self._secret_key, self._held.account_id, person)

    def _pull_row(
        self, window: Window, began_at: datetime, before: int, outcome: str, rows: int
    ) -> dict[str, Any]:
        return {
            "account_id": self._held.account_id,
            "connection_id": self._held.id,
            "report": window.report.name,
            "first_at": window.first,
            "last_at": window.last,
            "rows": rows,
            "requests": self._client.requests - before,
            "outcome": outcome,
            "began_at": began_at,
        }

    def _pull_names(self, now: datetime) -> None:
        """Pull the names of projects and keys, without which the figures are right, too."""
        owner = {"connection_id": self._held.id, "account_id": self._held.account_id}
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        is_whole = False
        try:
            for name in self._provider.list_names(self._client):
                known = vars(name) | {"name_id": name.id}
                del known["id"]
                rows[name.kind, name.id] = {**owner, **known}
            is_whole = True
        except RevokedKeyError:
            raise
        except (ConnectionFailedError, KeyError, TypeError) as error:
            _log.warning("names_not_pulled", error_type=type(error).__name__)

        def save(connection: Connection) -> None:
            if is_whole:
                retire_names(connection, self._held.id)
            save_names(connection, list(rows.values()))

        self.claim.do(save, names={"at": now.isoformat()})
