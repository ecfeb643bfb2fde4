"""Caps of an account, by its plan: queued audits, stored bytes, and failed work a day.

They are checked before the body is read. If a queue is almost full, its cap is checked again, one
request at a time, in the transaction that adds the audit. Stored bytes may exceed their cap by the
bodies that are being read.
"""

import time
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import current_app, g
from sqlalchemy.orm import Session

from service.config import Config
from service.errors import PaymentRequiredError, RateLimitedError
from service.models.audits.capacity import (
    count_failed_seconds,
    count_queued,
    seconds_until_tomorrow,
    sum_stored_bytes,
)
from service.models.base import Executor, Lock, take_lock, utc_now
from service.models.identity.accounts import get_account
from service.payments.links import purchase_links
from service.web.auth.callers import current_caller
from service.web.http.current import current_config, get_session, release_connection

P = ParamSpec("P")
R = TypeVar("R")

# Enough for a worker to finish some audits.
_QUEUE_RETRY_SECONDS: Final = 30
# A count of a long queue is too slow for every request: it is kept for so long, or until the queue
# may be full if so many web processes each add what this one does.
_COUNT_SECONDS: Final = 1.0
_WEB_PROCESSES: Final = 16
# A sum over all audits is too slow for every request.
_SUM_SECONDS: Final = 60.0
_MOST_ACCOUNTS: Final = 10_000
_GIB: Final = 1 << 30


def capped(view: Callable[P, R]) -> Callable[P, R]:
    """Refuse a batch of an account whose queue or storage is full."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        caller = current_caller()
        check_capacity(caller.account_id, caller.plan)
        release_connection()  # before the body is decoded
        return view(*args, **kwargs)

    return checked


def check_capacity(account_id: str, plan: str | None = None) -> None:
    """Raise an error if the account's queue or its storage is full; look up a plan not given."""
    config = current_config()
    plan = plan or get_account(get_session(), account_id).plan
    queued = QueuedAudits.of_app().find(account_id, plan)
    _check_queue(config, plan, queued)
    stored = StoredBytes.of_app().find(account_id, plan)
    most = config.stored_bytes(plan)
    if stored >= most:
        raise PaymentRequiredError(
            f"Your storage is full: your plan includes {most / _GIB:,.0f} GiB. Upgrade your plan to"
            " store more.",
            details={"payment_links": purchase_links(config, current_caller().account_id)},
        )
    if queued + _WEB_PROCESSES > config.queued_audits(plan):
        g.almost_full_queue = plan


def check_place(connection: Executor, account_id: str) -> None:
    """Raise an error if the audit that was added here is one too many in its account's queue."""
    plan = g.get("almost_full_queue")
    if plan is not None:
        take_lock(connection, Lock.QUEUED_AUDITS, account_id)
        most = current_config().queued_audits(plan) + 1
        _check_queue(current_config(), plan, count_queued(connection, account_id, most) - 1)


def count_stored(account_id: str, size: int) -> None:
    """Count the bytes that a request has added to its account."""
    StoredBytes.of_app().add(account_id, size)


def count_recalculations_allowed(session: Session, account_id: str) -> int:
    """Count the audits that the account may queue again: half of its queue is left to new calls.

    The number stays right until the transaction ends.
    """
    take_lock(session, Lock.QUEUED_AUDITS, account_id)
    most = current_config().queued_audits(get_account(session, account_id).plan) // 2
    return max(0, most - count_queued(session, account_id, most))


def check_failed_work(session: Session, account_id: str) -> None:
    """Raise an error if today's uploads without a report took too much of the workers' time."""
    allowed = current_config().failed_work_seconds_per_day
    if count_failed_seconds(session, account_id) >= allowed:
        raise RateLimitedError(
            f"Audits of your uploads failed after more than {allowed:,} seconds of processing"
            " today. Uploads resume at midnight UTC.",
            seconds_until_tomorrow(utc_now()),
        )


def _check_queue(config: Config, plan: str, queued: int) -> None:
    most = config.queued_audits(plan)
    if queued >= most:
        raise RateLimitedError(
            f"{most:,} of your audits are queued, the most that your plan allows. Try again when"
            " some of them are done.",
            _QUEUE_RETRY_SECONDS,
        )


class QueuedAudits:
    """Upper bounds of how many audits accounts have queued."""

    _EXTENSION: Final = "tallystick_queued_audits"

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, int]] = {}

    @classmethod
    def of_app(cls) -> "QueuedAudits":
        found: QueuedAudits = current_app.extensions.setdefault(cls._EXTENSION, cls())
        return found

    def find(self, account_id: str, plan: str) -> int:
        """Return the bound before one more audit; it is exact if the queue may be full."""
        most, now = current_config().queued_audits(plan), time.monotonic()
        counted_at, bound = self._counts.get(account_id, (-_COUNT_SECONDS, 0))
        if now > counted_at + _COUNT_SECONDS or bound >= most:
            if len(self._counts) >= _MOST_ACCOUNTS:
                self._counts.clear()
            counted_at, bound = now, count_queued(get_session(), account_id, most)
        self._counts[account_id] = (counted_at, bound + _WEB_PROCESSES)
        return bound


class StoredBytes:
    """The bytes that accounts store, each summed again after some seconds.

    What was added since counts as if each of the web processes had added as much.
    """

    _EXTENSION: Final = "tallystick_stored_bytes"

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int, int]] = {}

    @classmethod
    def of_app(cls) -> "StoredBytes":
        found: StoredBytes = current_app.extensions.setdefault(cls._EXTENSION, cls())
        return found

    def find(self, account_id: str, plan: str) -> int:
        """Return the bytes, summed now if the storage may have been filled since."""
        most, now = current_config().stored_bytes(plan), time.monotonic()
        summed_at, stored, added = self._sums.get(account_id, (-_SUM_SECONDS, 0, 0))
        may_be_full = stored < most <= stored + _WEB_PROCESSES * added
        if now > summed_at + _SUM_SECONDS or may_be_full:
            if len(self._sums) >= _MOST_ACCOUNTS:
                self._sums.clear()
            stored = sum_stored_bytes(get_session(), account_id)
            self._sums[account_id] = (now, stored, 0)
        return stored

    def add(self, account_id: str, size: int) -> None:
        if account_id in self._sums:
            summed_at, stored, added = self._sums[account_id]
            self._sums[account_id] = (summed_at, stored, added + size)
