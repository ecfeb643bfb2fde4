"""`pull_connection`: pull the reports of a connection that are due, window by window.

Each window is one transaction that replaces the rows of its buckets, writes a row about the pull
and moves the connection's progress. So a killed job repeats a window and doubles none, and the
next job goes on where it ended.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
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
    Report,
    UsageLine,
    Window,
)
from service.core.db import make_engine
from service.core.logs import get_logger
from service.core.telemetry.counters import PULLS
from service.core.tokens import hash_person
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.base import Lock, take_lock, utc_now
from service.models.connections.bill import find_first_day
from service.models.connections.connections import (
    LostConnectionError,
    ProviderConnection,
    claim_connection,
    hold,
    is_settled,
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
    list_day,
    replace_rows,
    retire_names,
    save_names,
    set_prices,
)
from service.models.connections.unsent import PRICED, mark_filled, replace_unsent
from service.operations.connections.coverage import find_unsent
from service.operations.connections.plan import (
    advance,
    choose_reports,
    find_next,
    floor,
    list_windows,
    needs_names,
    with_names,
)
from service.operations.connections.reconciliation import lock_months
from service.operations.connections.rows import COUNTED, Prices, load_prices, make_row
from service.operations.findings.totals import track_totals

# Then another job goes on, so that the worker gets to its notices.
_JOB_SECONDS: Final = 30.0
_TOTALS, _TOTALS_EVERY = "totals", 6 * HOUR
_HOURS_KEPT: Final = 7 * DAY
# As far back as any provider's reports are pulled; what older days lack stays as it was found.
_FILLED: Final = 400 * DAY

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
    provider = list_providers()[held.provider]
    try:
        with open_client(
            provider, held.key, find_url(config.connection_urls, provider.name)
        ) as client:
            job = _Pull(engine, held, provider, client, config)
            is_pulled = held.is_active and config.connections == "on"
            (job.run if is_pulled else job.compare)(time.monotonic() + seconds)
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
        self,
        engine: Engine,
        held: ProviderConnection,
        provider: Provider,
        client: Asking,
        config: Config,
    ) -> None:
        self._engine = engine
        self._kept_days = config.rollup_retention_days
        self._secret_key = config.secret_key
        self._held = held
        self._provider = provider
        self._client = client
        self._progress: dict[str, Any] = dict(held.progress)
        self._priced_with, self._prices = transact(engine, self._load_prices)

    def _load_prices(self, connection: Connection) -> tuple[str, Prices]:
        return load_prices(connection, self._held.account_id, self._provider.name)

    def run(self, ends_at: float) -> None:
        """Pull what is due, and compare the account's spend, also where the provider fails."""
        now = utc_now()
        try:
            next_at = self._pull_due(ends_at, now)
        except ConnectionFailedError:
            self._reprice(ends_at)
            self._fill(now)
            raise
        if not self._reprice(ends_at):
            next_at = now
        self._fill(now)
        if next_at > now:
            transact(self._engine, partial(self._lock_months, now=now))
            self._track_totals(now)
        transact(self._engine, partial(release, held=self._held, next_pull_at=next_at))

    def _track_totals(self, now: datetime) -> None:
        """Find what totals prove, a few times a day, and of what isn't pulled when it changes."""
        at = self._progress.get(_TOTALS, {}).get("at")
        is_recent = at is not None and now - datetime.fromisoformat(at) < _TOTALS_EVERY
        if self._held.is_active and is_recent:
            return

        def track(connection: Connection) -> None:
            hold(connection, self._held, progress=self._progress)
            track_totals(connection, self._held.account_id, self._provider.name, now.date())

        self._progress = {**self._progress, _TOTALS: {"at": now.isoformat()}}
        transact(self._engine, track)

    def _lock_months(self, connection: Connection, now: datetime) -> None:
        """Lock what has ended, once all of it was pulled."""
        if is_settled(connection, self._held):
            lock_months(connection, self._held.account_id, self._provider.name, now)

    def compare(self, ends_at: float) -> None:
        """Only compare the account's spend: a removed connection whose reports are kept has no key.

        So does one of an installation whose operator has turned connections off; an hour later, it
        may be on again.
        """
        now = utc_now()
        is_priced = self._reprice(ends_at)
        self._fill(now)
        if is_priced:
            if not self._held.is_active:  # the others aren't whole without what is to be pulled
                transact(self._engine, partial(self._lock_months, now=now))
            self._track_totals(now)
        next_at = (now + HOUR if self._held.is_active else None) if is_priced else now
        transact(self._engine, partial(release_compared, held=self._held, next_pull_at=next_at))

    def _pull_due(self, ends_at: float, now: datetime) -> datetime:
        """Return when the next pull is due: at once, if the time was over before this one ended."""
        while due := self._list_due(now):
            if time.monotonic() >= ends_at or is_stop_requested():
                return now
            self._pull_window(due[0], now)
        if self._held.keeps_names and needs_names(self._progress, now):
            self._pull_names(now)
        return find_next(self._choose_reports(), self._progress, now)

    def _choose_reports(self) -> Sequence[Report]:
        return choose_reports(self._provider.reports, self._progress)

    def _list_due(self, now: datetime) -> Sequence[Window]:
        return list_windows(self._choose_reports(), self._progress, now, self._held.created_at)

    def _fill(self, now: datetime) -> None:
        """Add what calls don't cover to the account's spend."""

        def fill(connection: Connection) -> None:
            hold(connection, self._held)
            provider, back = self._provider.name, _FILLED
            if self._held.filled_at is None:  # all of it, also what is usually left as it was found
                first = find_first_day(connection, self._held.account_id, provider)
                back = max(back, now.date() - (first or now.date()))
            if self._kept_days:  # spend that is older has been deleted
                back = min(back, self._kept_days * DAY)
            days = (now.date() - back, now.date())
            # Another connection of this provider may be compared at the same time.
            take_lock(connection, Lock.REPORTED_SPEND, self._held.account_id)
            found = find_unsent(connection, self._held.account_id, provider, days)
            replace_unsent(connection, self._held.account_id, provider, found, since=days[0])
            mark_filled(connection, self._held.account_id, provider)

        transact(self._engine, fill)

    def _reprice(self, ends_at: float) -> bool:
        """Price stored usage again if the prices or the account's terms have changed, newest first.

        Return False if the time was over before all of it was.
        """
        state = self._progress.get(PRICED, {})
        if state.get("with") == self._priced_with and "before" not in state:
            return True
        before = date.max.isoformat()
        if state.get("with") == self._priced_with:
            before = state["before"]
        while before:
            if time.monotonic() >= ends_at or is_stop_requested():
                return False
            step = partial(self._reprice_day, before=date.fromisoformat(before))
            before = transact(self._engine, step)
        return True

    def _reprice_day(self, connection: Connection, before: date) -> str:
        """Price the newest day before this one again; return it, or "" if there is none."""
        if self._provider.prices_usage:  # its dollars are the report's own
            rows: Sequence[Any] = ()
        else:
            rows = list_day(connection, self._held.id, self._held.account_id, before)
        prices = []
        for row in rows:
            line = UsageLine(bucket=row.bucket_at, **{name: getattr(row, name) for name in COUNTED})
            listed, own = (price(line) for price in self._prices)
            if (listed, own) != (row.list_usd, row.cost_usd):
                prices.append((row.id, listed, own))
        state = {"with": self._priced_with}
        if rows:
            state["before"] = rows[0].day.isoformat()
        self._progress = {**self._progress, PRICED: state}
        hold(connection, self._held, progress=self._progress)
        if prices:
            set_prices(connection, prices)
        return state.get("before", "")

    def _pull_window(self, window: Window, now: datetime) -> None:
        began_at, before, outcome = utc_now(), self._client.requests, DONE
        # A better report whose answer is an error is none: it may have been retired.
        is_better = bool(window.report.instead_of)
        try:
            fetched = fetch_window(self._client, self._provider, window)
        except (MissingRightError, UnreadableResponseError) as error:
            # The key may read other reports. It is asked again when this one is due again.
            is_missing = isinstance(error, MissingRightError) and window.report.is_optional
            if not is_missing and not is_better:
                self._note(window, began_at, before, error.code)
                raise
            fetched, outcome = Fetched((), 0, is_empty=True), MissingRightError.code
        except ConnectionFailedError as error:
            self._note(window, began_at, before, error.code)
            raise
        if fetched.is_empty and outcome == DONE:
            outcome = MissingRightError.code if is_better else EMPTY
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
            # A day's rows are of one report, also after the key may read a better one.
            others = set[str]()
            for other in self._provider.reports:
                if window.report.name in (other.instead_of, other.name):
                    others |= {other.name, other.instead_of or window.report.name}
            for table, found in rows.items():
                for name in others - {window.report.name}:
                    replace_rows(connection, table, self._held.id, name, within, [])
                replace_rows(connection, table, self._held.id, window.report.name, within, found)
            save_names(connection, self._name_people(fetched.lines))
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
            if isinstance(line, ActivityLine):
                row["person_id"] = self._hash(row.pop("person"))
            table = next(each for each in found if isinstance(line, _LINES[each]))
            found[table].append({**row, "is_hourly": report.width == HOUR})
        return found

    def _hash(self, person: str) -> str:
        return hash_person(self._secret_key, self._held.account_id, person)

    def _name_people(self, lines: Sequence[Line]) -> list[dict[str, Any]]:
        """Return the names of the people in lines, if the account wants to see them."""
        if not self._held.shows_people:
            return []
        owner = {"connection_id": self._held.id, "account_id": self._held.account_id}
        people = {line.person for line in lines if isinstance(line, ActivityLine)}
        named = {"kind": PERSON, "parent_id": "", "is_active": True}
        return [
            {**owner, **named, "name_id": self._hash(person), "name": person}
            for person in sorted(people)
        ]

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
        progress = with_names(self._progress, now)

        def save(connection: Connection) -> None:
            hold(connection, self._held, progress=progress)
            if is_whole:
                retire_names(connection, self._held.id)
            save_names(connection, list(rows.values()))

        transact(self._engine, save)
        self._progress = progress
