"""`pull_connection`: pull the reports of a connection that are due, window by window.

Each window is one transaction that replaces the rows of its buckets, writes a row about the pull
and moves the connection's progress. So a killed job repeats a window and doubles none, and the
next job goes on where it ended.
"""

import time
from collections.abc import Mapping, Sequence
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
    fetch_window,
    find_url,
    open_client,
)
from service.connections.provider import (
    BOTH,
    COSTS,
    DAY,
    HOUR,
    USAGE,
    Asking,
    CostLine,
    Line,
    Provider,
    Window,
)
from service.core.db import make_engine
from service.core.logs import get_logger
from service.core.telemetry.counters import PULLS
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.base import Lock, take_lock, utc_now
from service.models.connections.connections import (
    LostConnectionError,
    ProviderConnection,
    claim_connection,
    hold,
    release,
    release_failed,
)
from service.models.connections.reported import (
    DONE,
    EMPTY,
    ReportedCost,
    ReportedUsage,
    Table,
    add_pull,
    delete_hours,
    replace_rows,
    save_names,
)
from service.models.connections.unsent import mark_filled, replace_unsent
from service.operations.connections.plan import (
    advance,
    find_next,
    floor,
    list_windows,
    needs_names,
    with_names,
)
from service.operations.connections.reconciliation import find_unsent, lock_months
from service.operations.connections.rows import Prices, load_prices, make_row

# Then another job goes on, so that the worker gets to its notices.
_JOB_SECONDS: Final = 30.0
_HOURS_KEPT: Final = 7 * DAY
# As far back as any provider's reports are pulled; what older days lack stays as it was found.
_FILLED: Final = 400 * DAY

_TABLES: Final[Mapping[str, Sequence[Table]]] = {
    USAGE: (ReportedUsage,),
    COSTS: (ReportedCost,),
    BOTH: (ReportedUsage, ReportedCost),
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
    if config.connections != "on":
        return
    held = transact(engine, partial(claim_connection, connection_id=connection_id))
    if held is None:
        _log.info("pull_not_claimed", connection_id=connection_id)
        return
    provider = list_providers()[held.provider]
    try:
        with open_client(
            provider, held.key, find_url(config.connection_urls, provider.name)
        ) as client:
            _Pull(engine, held, provider, client).run(time.monotonic() + seconds)
    except LostConnectionError:
        _log.warning("pull_lost", connection_id=connection_id)
    except ConnectionFailedError as error:
        _log.warning("pull_failed", connection_id=connection_id, reason=error.code)
        wait = error.seconds if isinstance(error, ThrottledError) else 0.0
        wait = max(wait, provider.pause_seconds)
        fail = partial(release_failed, held=held, error=error.code, seconds=wait)
        _end(engine, fail)
    except Exception:
        _end(engine, partial(release_failed, held=held, error="internal"))
        raise


def _end(engine: Engine, step: Any) -> None:
    try:
        transact(engine, step)
    except LostConnectionError:
        _log.warning("pull_lost")


class _Pull:
    """One job's part of a pull."""

    def __init__(
        self, engine: Engine, held: ProviderConnection, provider: Provider, client: Asking
    ) -> None:
        self._engine = engine
        self._held = held
        self._provider = provider
        self._client = client
        self._progress: dict[str, Any] = dict(held.progress)
        self._prices = transact(engine, self._load_prices)

    def _load_prices(self, connection: Connection) -> Prices:
        return load_prices(connection, self._held.account_id, self._provider.name)

    def run(self, ends_at: float) -> None:
        """Pull what is due, and compare the account's spend, also where the provider fails."""
        now, next_at = utc_now(), None
        try:
            if self._held.is_active:
                next_at = self._pull_due(ends_at, now)
        except ConnectionFailedError:
            self._fill(now)
            raise
        self._fill(now)
        lock = partial(
            lock_months,
            account_id=self._held.account_id,
            provider=self._provider.name,
            now=now,
        )
        transact(self._engine, lock)
        transact(self._engine, partial(release, held=self._held, next_pull_at=next_at))

    def _pull_due(self, ends_at: float, now: datetime) -> datetime:
        """Return when the next pull is due: at once, if the time was over before this one ended."""
        reports = self._provider.reports
        while due := list_windows(reports, self._progress, now, self._held.created_at):
            if time.monotonic() >= ends_at or is_stop_requested():
                return now
            self._pull_window(due[0], now)
        if self._held.keeps_names and needs_names(self._progress, now):
            self._pull_names(now)
        return find_next(reports, self._progress, now)

    def _fill(self, now: datetime) -> None:
        """Add what calls don't cover to the account's spend."""
        days = (now.date() - _FILLED, now.date())

        def fill(connection: Connection) -> None:
            hold(connection, self._held)
            provider = self._provider.name
            # Another connection of this provider may be compared at the same time.
            take_lock(connection, Lock.REPORTED_SPEND, self._held.account_id)
            found = find_unsent(connection, self._held.account_id, provider, days)
            replace_unsent(connection, self._held.account_id, provider, found, since=days[0])
            mark_filled(connection, self._held.account_id, provider)

        transact(self._engine, fill)

    def _pull_window(self, window: Window, now: datetime) -> None:
        began_at, before, outcome = utc_now(), self._client.requests, DONE
        try:
            fetched = fetch_window(self._client, self._provider, window)
        except MissingRightError as error:
            if not window.report.is_optional:
                self._note(window, began_at, before, error.code)
                raise
            # The key may read other reports. It is asked again when this one is due again.
            fetched, outcome = Fetched((), 0, is_empty=True), error.code
        except ConnectionFailedError as error:
            self._note(window, began_at, before, error.code)
            raise
        if fetched.is_empty and outcome == DONE:
            outcome = EMPTY
        progress = advance(self._progress, window, now, self._held.created_at)
        if outcome == MissingRightError.code:
            progress = self._without_history(progress, window, now)
        step = partial(
            self._store,
            window=window,
            rows=self._rows(window, fetched.lines),
            fetched=fetched,
            progress=progress,
            pull=self._pull_row(window, began_at, before, outcome, len(fetched.lines)),
        )
        transact(self._engine, step)
        self._progress = progress
        PULLS.labels(self._provider.name, outcome).inc()

    def _without_history(
        self, progress: dict[str, Any], window: Window, now: datetime
    ) -> dict[str, Any]:
        """Ask for no older windows of a report that the key may not read."""
        state = dict(progress[window.report.name])
        state.pop("back", None)
        return {**progress, window.report.name: {**state, "at": now.isoformat()}}

    def _store(
        self,
        connection: Connection,
        window: Window,
        rows: Rows,
        fetched: Fetched,
        progress: dict[str, Any],
        pull: dict[str, Any],
    ) -> None:
        # First, because the row's lock keeps another worker from replacing the same buckets.
        hold(connection, self._held, progress=progress)
        if not fetched.is_empty:
            within = (window.first, window.last)
            for table, found in rows.items():
                replace_rows(connection, table, self._held.id, window.report.name, within, found)
        if window.report.width == HOUR and window.last is None:
            delete_hours(connection, self._held.id, floor(utc_now(), HOUR) - _HOURS_KEPT)
        add_pull(connection, **pull)

    def _rows(self, window: Window, lines: Sequence[Line]) -> Rows:
        """Return the rows by table, also of a table that gets none in place of its old ones."""
        report, names = window.report, self._held.keeps_names
        owner = {"account_id": self._held.account_id, "connection_id": self._held.id}
        shared = {**owner, "report": report.name}
        found: Rows = {table: [] for table in _TABLES[report.kind]}
        for line in lines:
            row = {**shared, **make_row(line, self._prices, keeps_names=names)}
            table = ReportedCost if isinstance(line, CostLine) else ReportedUsage
            found[table].append({**row, "is_hourly": report.width == HOUR})
        return found

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

    def _note(self, window: Window, began_at: datetime, before: int, outcome: str) -> None:
        PULLS.labels(self._provider.name, outcome).inc()
        row = self._pull_row(window, began_at, before, outcome, 0)

        def add(connection: Connection) -> None:
            hold(connection, self._held)
            add_pull(connection, **row)

        transact(self._engine, add)

    def _pull_names(self, now: datetime) -> None:
        """Pull the names of projects and keys, without which the figures are right, too."""
        owner = {"connection_id": self._held.id, "account_id": self._held.account_id}
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        try:
            for name in self._provider.list_names(self._client):
                fields = {"kind": name.kind, "name_id": name.id, "name": name.name}
                rows[name.kind, name.id] = {**owner, **fields, "parent_id": name.parent_id}
        except RevokedKeyError:
            raise
        except (ConnectionFailedError, KeyError, TypeError) as error:
            _log.warning("names_not_pulled", error_type=type(error).__name__)
        progress = with_names(self._progress, now)

        def save(connection: Connection) -> None:
            hold(connection, self._held, progress=progress)
            save_names(connection, list(rows.values()))

        transact(self._engine, save)
        self._progress = progress
