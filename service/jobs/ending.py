"""End an attempt that gave no report: fail its audit, or queue it again."""

import time
from collections.abc import Sequence
from typing import Final

from rq.timeouts import BaseTimeoutException
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.core.telemetry.counters import ATTEMPTS
from service.jobs.outages import Outage
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.audits.capacity import add_failed_seconds
from service.models.audits.leases import (
    Claim,
    fail_audit,
    gave_up_message,
    postpone_audit,
    retry_audit,
)

_PAUSE_SECONDS: Final = 1.0

_log = get_logger(__name__)


def refuse(engine: Engine, claim: Claim, message: str, seconds: float) -> None:
    """Fail an audit whose data is at fault."""

    def end(connection: Connection) -> None:
        if fail_audit(connection, claim, message):
            add_failed_seconds(connection, claim.audit_id, seconds)

    transact(engine, end)


def retry_or_fail(
    engine: Engine, claim: Claim, max_attempts: int, seconds: float, reason: str = ""
) -> bool:
    """Queue another attempt, or fail the audit after the last one, for a reason if it is known.

    Return False if the claim no longer holds the audit, which may even be published.
    """

    def end(connection: Connection) -> bool:
        if claim.counted_attempt < max_attempts:
            has_ended = retry_audit(connection, claim)
        else:
            has_ended = fail_audit(connection, claim, reason or gave_up_message(max_attempts))
        if has_ended:
            add_failed_seconds(connection, claim.audit_id, seconds)
        return has_ended

    try:
        return transact(engine, end)
    except SQLAlchemyError as error:
        # The audit is retried when its lease expires.
        _log.warning("audit_not_retried", error_type=type(error).__name__)
        return False


def postpone(engine: Engine, claims: Sequence[Claim], outage: Outage) -> None:
    """Queue audits again after an outage, which is no attempt at them.

    If the database itself is away, wait for it: without a word of this process, the attempts would
    look like those of one that died.
    """
    for claim in claims:
        outage.report("audit", audit_id=claim.audit_id, attempt=claim.attempt)
        ATTEMPTS.labels("postponed").inc()

    def end(connection: Connection) -> None:
        for claim in claims:
            postpone_audit(connection, claim)

    while True:
        try:
            transact(engine, end)
            return
        except (SQLAlchemyError, BaseTimeoutException) as error:
            _log.warning("audit_not_postponed", error_type=type(error).__name__)
        if is_stop_requested():
            return
        time.sleep(_PAUSE_SECONDS)
