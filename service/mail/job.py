"""`send_mail`: send one mail of the outbox, unless another worker has it or it has ended.

It runs in a separate process that `service.jobs.process` forks for each mail.
"""

from functools import partial
from typing import Final

from sqlalchemy import Engine

from service.config import Config
from service.core.db import make_engine
from service.core.logs import get_logger
from service.jobs.transactions import transact
from service.mail.delivery import RefusedError, delete_mail_files, deliver
from service.mail.messages import compose
from service.models.mail.outbox import Dispatch, claim_mail, fail_mail, finish_mail, postpone_mail

# Longer than RQ's time limit plus a database outage, so that no other worker sends the same mail.
LEASE_SECONDS: Final = 60.0

_log = get_logger(__name__)


def send_mail(mail_id: str) -> None:
    """Claim, render and send the mail; raise unexpected errors after scheduling a retry."""
    config = Config.load()
    engine = make_engine(config)
    try:
        claim = partial(claim_mail, mail_id=mail_id, lease_seconds=LEASE_SECONDS)
        dispatch = transact(engine, claim)
        if dispatch is None:
            _log.info("mail_not_claimed", mail_id=mail_id)
        else:
            _send(config, engine, dispatch)
    finally:
        engine.dispose()


def _send(config: Config, engine: Engine, dispatch: Dispatch) -> None:
    log = _log.bind(mail_id=dispatch.mail_id, kind=dispatch.kind, attempt=dispatch.attempt)
    try:
        deliver(config, compose(config, dispatch), dispatch.mail_id)
    except RefusedError:
        transact(engine, partial(fail_mail, dispatch=dispatch, error=RefusedError.__name__))
        log.warning("mail_refused")
    except Exception as error:
        name = type(error).__name__
        transact(engine, partial(postpone_mail, dispatch=dispatch, error=name))
        if not isinstance(error, OSError):
            raise
        log.warning("mail_postponed", error_type=name)
    else:
        is_known = transact(engine, partial(finish_mail, dispatch=dispatch))
        if not is_known and config.mail_folder is not None:
            # Its account was deleted while the mail was being written.
            delete_mail_files(config.mail_folder, [dispatch.mail_id])
        log.info("mail_sent")
