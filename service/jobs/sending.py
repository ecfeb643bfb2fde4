"""Send one mail or notice, and resend the wake-ups of those that were lost.

A job runs in a separate process that `service.jobs.process` forks for each row.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from redis import RedisError
from sqlalchemy import Connection

from service.config import Config
from service.core.db import make_engine
from service.core.logs import get_logger
from service.core.telemetry.counters import SWEEPER_ACTIONS
from service.jobs.queues import AuditQueues, WakeUp
from service.jobs.transactions import transact
from service.models.sending import (
    Sent,
    claim,
    fail,
    fail_overdue,
    finish,
    list_due,
    postpone,
)

# Longer than RQ's time limit plus a database outage, so that no other worker sends the same row.
LEASE_SECONDS: Final = 60.0
# The wake-up is sent right after the commit, so a row this young was probably just sent.
_FRESH_SECONDS: Final = 1.0

_log = get_logger(__name__)


class AttemptError(Exception):
    """The row wasn't sent; `values` are stored with it."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.values = values


class FinalError(AttemptError):
    """The row wasn't sent, and another attempt can't help."""


def send_row(
    config: Config,
    table: type[Sent],
    row_id: str,
    deliver: Callable[[Config, Sent], Mapping[str, Any]],
    *expected: type[Exception],
) -> bool:
    """Claim and deliver a row; raise unexpected errors after scheduling a retry.

    `deliver` returns what is stored with a success, and raises `AttemptError`, `OSError` or one of
    the `expected` errors. Return False if the row was deleted meanwhile.
    """
    engine = make_engine(config)
    try:
        row = transact(
            engine, partial(claim, table=table, row_id=row_id, lease_seconds=LEASE_SECONDS)
        )
        if row is None:
            _log.info(f"{table.NAME}_not_claimed", **{table.ID_NAME: row_id})
            return True
        log = _log.bind(**{table.ID_NAME: row_id}, kind=row.kind, attempt=row.attempts)
        try:
            values = deliver(config, row)
        except Exception as error:
            name, values = type(error).__name__, getattr(error, "values", {})
            if isinstance(error, FinalError):
                transact(engine, partial(fail, row=row, error=name, **values))
                log.warning(f"{table.NAME}_refused", error_type=name, **values)
                return True
            transact(engine, partial(postpone, row=row, error=name, **values))
            if not isinstance(error, (OSError, AttemptError, *expected)):
                raise
            log.warning(f"{table.NAME}_postponed", error_type=name, **values)
            return True
        is_known = transact(engine, partial(finish, row=row, **values))
        log.info(f"{table.NAME}_{table.SENT}", **values)
        return is_known
    finally:
        engine.dispose()


def sweep_unsent(connection: Connection, table: type[Sent], queues: AuditQueues) -> None:
    """Run one round: fail what is overdue, and wake the worker for what is due."""
    with connection.begin():
        failed = fail_overdue(connection, table)
        due = list_due(connection, table, _FRESH_SECONDS)
    lost = []
    try:
        # If a worker has already taken a wake-up, its claim decides.
        known = queues.waiting_job_ids(table.NAME) if due else ()
        wake_ups = [WakeUp(row.id, table.NAME, row.attempts + 1) for row in due]
        lost = [each for each in wake_ups if each.job_id not in known]
        for each in lost:
            queues.push(each)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
        lost = []
    SWEEPER_ACTIONS.labels(table.FAILED_ACTION).inc(len(failed))
    SWEEPER_ACTIONS.labels(table.WOKEN_ACTION).inc(len(lost))
    if failed or lost:
        _log.info(f"{table.NAME}s_swept", failed=list(failed), enqueued=len(lost))
