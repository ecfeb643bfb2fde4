"""Stop a job's process with its worker: finish in time, or requeue its audits."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.logs import get_logger
from service.core.telemetry.counters import ATTEMPTS
from service.jobs.queues import AuditQueues
from service.jobs.transactions import transact
from service.models.audits.leases import Claim, requeue_audit

_log = get_logger(__name__)


class StopNotice:
    """A notice of SIGTERM that a thread waits for.

    Python runs signal handlers between instructions of the main thread, and a dataframe library may
    delay that. So we use the wake-up byte, which the interpreter writes immediately.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._given_at: float | None = None
        self._changed = threading.Condition()

    def listen(self) -> None:
        """Handle SIGTERM as a notice from now on; only the main thread may call this."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
        threading.Thread(target=self._watch, name="stop", daemon=True).start()

    def give(self) -> None:
        """Record a signal that arrived before `listen`."""
        os.write(self._writer, bytes([signal.SIGTERM]))

    @property
    def is_given(self) -> bool:
        return self._given_at is not None

    def wait(self, ended: threading.Event) -> float | None:
        """Return when SIGTERM arrived, by the monotonic clock; None once `ended` is set."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_given or ended.is_set())
        return None if ended.is_set() else self._given_at

    def wake(self) -> None:
        """Let `wait` notice that its job has ended."""
        with self._changed:
            self._changed.notify_all()

    def _watch(self) -> None:
        while signal.SIGTERM not in os.read(self._reader, 1):
            pass  # the bytes of other signals
        with self._changed:
            self._given_at = time.monotonic()
            self._changed.notify_all()


_notice: StopNotice | None = None


def listen_for_stop(*, is_already_requested: bool) -> None:
    """Start listening; call it once, at the beginning of a job's process."""
    global _notice
    _notice = StopNotice()
    _notice.listen()
    if is_already_requested:
        _notice.give()


def is_stop_requested() -> bool:
    """Check whether this job's process was asked to stop."""
    return _notice is not None and _notice.is_given


class RequeueOnStop:
    """On SIGTERM, wait for the grace period and then requeue the audits for another worker.

    The process then exits at once, wherever its main thread is: the fence keeps it from publishing.
    """

    EXIT_STATUS: Final = os.EX_TEMPFAIL

    def __init__(self, config: Config, engine: Engine, claims: Sequence[Claim]) -> None:
        self._config = config
        self._engine = engine
        self._claims = claims
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if _notice is not None:
            watch = partial(self._watch, _notice)
            threading.Thread(target=watch, name="requeue", daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        if _notice is not None:
            _notice.wake()

    def _watch(self, notice: StopNotice) -> None:
        stopped_at = notice.wait(self._ended)
        if stopped_at is None:
            return
        if self._ended.wait(stopped_at + self._config.stop_seconds - time.monotonic()):
            return

        def requeue(connection: Connection) -> list[tuple[Claim, str]]:
            sources = [(claim, requeue_audit(connection, claim)) for claim in self._claims]
            return [(claim, source) for claim, source in sources if source is not None]

        try:
            requeued = transact(self._engine, requeue)
        except SQLAlchemyError as error:
            # The audits are retried when their leases expire.
            _log.warning("audit_not_requeued", error_type=type(error).__name__)
            return
        if requeued:
            queues = AuditQueues.from_config(self._config)
            for claim, source in requeued:
                queues.enqueue_audit(claim.audit_id, source, claim.attempt + 1)
                ATTEMPTS.labels("handed_over").inc()
                _log.info("audit_requeued", audit_id=claim.audit_id, attempt=claim.attempt)
            os._exit(self.EXIT_STATUS)
