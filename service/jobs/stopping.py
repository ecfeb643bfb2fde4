"""Stop a job's process with its worker: finish in time, or requeue the audit."""

import os
import signal
import threading
from functools import partial
from typing import Final, Self

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.counters import ATTEMPTS
from service.core.logs import get_logger
from service.jobs.queues import AuditQueues
from service.jobs.transactions import transact
from service.models.audits.leases import Claim, requeue_audit

_log = get_logger(__name__)


class StopNotice:
    """A notice of SIGTERM that a thread can wait for.

    Python runs signal handlers between instructions of the main thread, and a dataframe library may
    delay that. So we use the wake-up byte, which the interpreter writes immediately.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def listen(self) -> None:
        """Handle SIGTERM as a notice from now on; only the main thread may call this."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)

    def give(self) -> None:
        """Record a signal that arrived before `listen`."""
        os.write(self._writer, bytes([signal.SIGTERM]))

    def wait(self) -> None:
        """Return once SIGTERM has arrived; ignore the bytes of other signals."""
        while signal.SIGTERM not in os.read(self._reader, 1):
            pass


_notice: StopNotice | None = None


def listen_for_stop(*, is_already_requested: bool) -> None:
    """Start listening; call it once, at the beginning of a job's process."""
    global _notice
    _notice = StopNotice()
    _notice.listen()
    if is_already_requested:
        _notice.give()


class RequeueOnStop:
    """On SIGTERM, wait for the grace period and then requeue the audit for another worker.

    The process then exits at once, wherever its main thread is: the fence keeps it from publishing.
    """

    EXIT_STATUS: Final = os.EX_TEMPFAIL

    def __init__(self, config: Config, engine: Engine, claim: Claim) -> None:
        self._config = config
        self._engine = engine
        self._claim = claim
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if _notice is not None:
            watch = partial(self._watch, _notice)
            threading.Thread(target=watch, name="requeue", daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()

    def _watch(self, notice: StopNotice) -> None:
        notice.wait()
        if self._ended.wait(self._config.stop_seconds):
            return
        try:
            source = transact(self._engine, partial(requeue_audit, claim=self._claim))
        except SQLAlchemyError as error:
            # The audit is retried when its lease expires.
            _log.warning("audit_not_requeued", error_type=type(error).__name__)
            return
        if source is not None:
            queues = AuditQueues.from_config(self._config)
            queues.enqueue_audit(self._claim.audit_id, source, self._claim.attempt + 1)
            ATTEMPTS.labels("handed_over").inc()
            _log.info("audit_requeued", audit_id=self._claim.audit_id, attempt=self._claim.attempt)
            os._exit(self.EXIT_STATUS)
