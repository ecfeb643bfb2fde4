"""What follows a pull: price stored usage, and compare what was reported with the account's calls.

It needs no provider, so it goes on where nothing is pulled: after a failure, and after a removal.
"""

import time
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine

from service.connections.provider import DAY, HOUR, Provider, UsageLine
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.base import Lock, take_lock
from service.models.connections.bill import find_first_day
from service.models.connections.connections import ProviderConnection, hold, is_settled
from service.models.connections.reported import list_day, set_prices
from service.models.connections.unsent import PRICED, mark_filled, replace_unsent
from service.operations.connections.coverage import find_unsent
from service.operations.connections.reconciliation import lock_months
from service.operations.connections.rows import COUNTED, load_prices
from service.operations.findings.totals import track_totals

_TOTALS, _TOTALS_EVERY = "totals", 6 * HOUR
# As far back as any provider's reports are pulled; what older days lack stays as it was found.
_FILLED: Final = 400 * DAY
Result = TypeVar("Result")


class Claim:
    """A connection that this job works on, and where its pulls stand."""

    def __init__(self, engine: Engine, row: ProviderConnection) -> None:
        self.engine, self.row, self.progress = engine, row, dict[str, Any](row.progress)

    def do(self, step: Callable[[Connection], Result], **progress: Any) -> Result:
        """Run a step in a transaction unless another worker has the connection; move its progress.

        The claim is checked first, because the row's lock keeps another worker from replacing the
        same rows.
        """
        moved = {**self.progress, **progress}

        def run(connection: Connection) -> Result:
            hold(connection, self.row, **({"progress": moved} if progress else {}))
            return step(connection)

        found = transact(self.engine, run)
        self.progress = moved
        return found


class Comparison:
    """The comparison of one account's spend with the reports of a provider."""

    def __init__(self, claim: Claim, provider: Provider, kept_days: int) -> None:
        self._claim, self._provider, self._kept_days = claim, provider, kept_days
        self._owner = (claim.row.account_id, provider.name)
        self._priced_with, self.prices = transact(
            claim.engine, lambda connection: load_prices(connection, *self._owner)
        )

    def compare(self, ends_at: float, now: datetime) -> bool:
        """Price stored usage again where prices have changed, and add what calls don't cover.

        Return False if the time was over before all of it was priced.
        """
        is_priced = self._reprice(ends_at)
        self._claim.do(partial(self._fill, now=now))
        return is_priced

    def conclude(self, now: datetime, *, is_whole: bool) -> None:
        """Lock what has ended, if all of it was pulled, and find what totals prove.

        Totals are looked at a few times a day, and those that aren't pulled when they change.
        """
        if is_whole:

            def lock(connection: Connection) -> None:
                if is_settled(connection, self._claim.row):
                    lock_months(connection, *self._owner, now)

            self._claim.do(lock)
        at = self._claim.progress.get(_TOTALS, {}).get("at")
        is_recent = at is not None and now - datetime.fromisoformat(at) < _TOTALS_EVERY
        if not (self._claim.row.is_active and is_recent):
            self._claim.do(
                lambda connection: track_totals(connection, *self._owner, now.date()),
                **{_TOTALS: {"at": now.isoformat()}},
            )

    def _fill(self, connection: Connection, now: datetime) -> None:
        back = _FILLED
        if self._claim.row.filled_at is None:  # all of it, also what is usually left as it was
            first = find_first_day(connection, *self._owner)
            back = max(back, now.date() - (first or now.date()))
        if self._kept_days:  # spend that is older has been deleted
            back = min(back, self._kept_days * DAY)
        days = (now.date() - back, now.date())
        # Another connection of this provider may be compared at the same time.
        take_lock(connection, Lock.REPORTED_SPEND, self._owner[0])
        found = find_unsent(connection, *self._owner, days)
        replace_unsent(connection, *self._owner, found, since=days[0])
        mark_filled(connection, *self._owner)

    def _reprice(self, ends_at: float) -> bool:
        """Price stored usage again, newest first, if prices or the account's terms have changed."""
        state = dict(self._claim.progress.get(PRICED, {}))
        if state.get("with") != self._priced_with:
            state = {"with": self._priced_with, "before": date.max.isoformat()}
        while "before" in state:
            if time.monotonic() >= ends_at or is_stop_requested():
                return False
            before = date.fromisoformat(state.pop("before"))
            days: Sequence[Any] = ()
            if not self._provider.prices_usage:  # else its dollars are the report's own
                find = partial(
                    list_day,
                    connection_id=self._claim.row.id,
                    account_id=self._owner[0],
                    before=before,
                )
                days = transact(self._claim.engine, find)
            if days:
                state["before"] = days[0].day.isoformat()
            self._claim.do(partial(self._set_prices, rows=days), **{PRICED: dict(state)})
        return True

    def _set_prices(self, connection: Connection, rows: Sequence[Any]) -> None:
        prices = []
        for row in rows:
            line = UsageLine(bucket=row.bucket_at, **{name: getattr(row, name) for name in COUNTED})
            listed, own = (price(line) for price in self.prices)
            if (listed, own) != (row.list_usd, row.cost_usd):
                prices.append((row.id, listed, own))
        if prices:
            set_prices(connection, prices)
