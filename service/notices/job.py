"""`send_notice`: send one delivery, unless another worker has it or it has ended.

It runs in a separate process that `service.jobs.process` forks for each delivery.
"""

from functools import partial
from typing import Final

from sqlalchemy import Engine

from service.config import Config
from service.core.db import make_engine
from service.core.logs import get_logger
from service.jobs.transactions import transact
from service.models.base import utc_now
from service.models.notices.attempts import (
    Dispatch,
    claim_delivery,
    drop_target,
    finish_delivery,
    postpone_delivery,
)
from service.notices.addresses import PrivateTargetError
from service.notices.messages import write_message
from service.notices.sending import ResponseError, send
from service.notices.urls import InvalidTargetError, parse_url

# Longer than RQ's time limit plus a database outage, so that no other worker sends the same notice.
LEASE_SECONDS: Final = 60.0
_GONE: Final = 410
_EXPECTED: Final = (OSError, PrivateTargetError, InvalidTargetError, ResponseError)

_log = get_logger(__name__)


class RejectedError(Exception):
    """The receiver responded with a status that isn't a success."""

    def __init__(self, status_code: int) -> None:
        super().__init__()
        self.status_code = status_code


class RedirectError(RejectedError):
    """The receiver responded with another address, which we don't follow."""


class GoneError(RejectedError):
    """The receiver doesn't want to get anything anymore."""


def send_notice(delivery_id: str) -> None:
    """Claim, write and send the delivery; raise unexpected errors after scheduling a retry."""
    config = Config.load()
    engine = make_engine(config)
    try:
        claim = partial(claim_delivery, delivery_id=delivery_id, lease_seconds=LEASE_SECONDS)
        dispatch = transact(engine, claim)
        if dispatch is None:
            _log.info("notice_not_claimed", delivery_id=delivery_id)
        else:
            _attempt(config, engine, dispatch)
    finally:
        engine.dispose()


def _attempt(config: Config, engine: Engine, dispatch: Dispatch) -> None:
    log = _log.bind(delivery_id=dispatch.delivery_id, event_type=dispatch.event_type)
    log = log.bind(target_id=dispatch.target_id, attempt=dispatch.attempt)
    try:
        status_code = _send(config, dispatch)
    except GoneError as error:
        drop = partial(drop_target, dispatch=dispatch, error=type(error).__name__)
        transact(engine, partial(drop, status_code=error.status_code))
        log.warning("notice_target_gone")
    except Exception as error:
        name, status = type(error).__name__, getattr(error, "status_code", None)
        postpone = partial(postpone_delivery, dispatch=dispatch, error=name, status_code=status)
        transact(engine, postpone)
        if not isinstance(error, (*_EXPECTED, RejectedError)):
            raise
        log.warning("notice_postponed", error_type=name, status_code=status)
    else:
        finish = partial(finish_delivery, dispatch=dispatch, status_code=status_code)
        transact(engine, finish)
        log.info("notice_delivered", status_code=status_code)


def _send(config: Config, dispatch: Dispatch) -> int:
    """Return the status of a success; raise an error that says what else happened."""
    allows_private = config.allows_private_targets
    url = parse_url(dispatch.url, allows_private=allows_private)
    headers, body = write_message(dispatch, config.base_url, utc_now())
    status_code = send(url, headers, body, allows_private=allows_private)
    if 200 <= status_code < 300:
        return status_code
    if status_code == _GONE:
        raise GoneError(status_code)
    raise RedirectError(status_code) if 300 <= status_code < 400 else RejectedError(status_code)
