"""The worker process: take one wake-up at a time and fork a process that runs it.

The parent forks repeatedly, so it must stay single-threaded: it must not even import Polars or
obstore.
"""

import gc
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from redis import Redis, RedisError
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import DequeueStrategy, Worker
from sqlalchemy.orm import configure_mappers

from service.config import Config
from service.core.logs import configure_logging, get_logger
from service.core.redis import connect
from service.core.shared_counters import count_together
from service.jobs.queues import MAIL_QUEUE, QUEUE_NAMES, SEND_MAIL, AuditJob
from service.jobs.stopping import listen_for_stop

AUDIT_QUEUES: Final = tuple(QUEUE_NAMES.values())
# RQ waits 15 seconds less for a wake-up, and treats a reply 10 seconds late as a hang.
_WORKER_TTL_SECONDS: Final = 20
_CONNECT_SECONDS: Final = 2.0
_RECONNECT_SECONDS: Final = 1.0
# Audits can wait; the web process and the database come first.
_NICENESS: Final = 10

_log = get_logger(__name__)


class AuditWorker(Worker):
    """RQ's worker, changed to survive Redis outages and to distrust the data in Redis."""

    max_connection_wait_time = _RECONNECT_SECONDS

    def __init__(self, connection: "Redis", queue_names: Sequence[str] = AUDIT_QUEUES) -> None:
        super().__init__(
            list(queue_names),
            connection=connection,
            job_class=AuditJob,
            serializer=JSONSerializer,
            worker_ttl=_WORKER_TTL_SECONDS,
            log_job_description=False,
        )

    @property
    def is_stop_requested(self) -> bool:
        return self._shutdown_requested_date is not None

    def subscribe(self) -> None:
        """Accept no commands from Redis; the listening thread would also be unsafe to fork."""

    def unsubscribe(self) -> None:
        """Do nothing, because there is no subscription."""

    def setup_work_horse_signals(self) -> None:
        """Let the running audit finish, because a service manager signals every process at once."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Between the fork and here, a signal would have run the parent's handler.
        listen_for_stop(is_already_requested=self.is_stop_requested)

    def handle_warm_shutdown_request(self) -> None:
        super().handle_warm_shutdown_request()  # type: ignore[no-untyped-call]
        self._stop_job()

    def monitor_work_horse(self, job: Job, queue: Queue) -> None:
        if self.is_stop_requested:  # before the job's process ID was known
            self._stop_job()
        super().monitor_work_horse(job, queue)

    def _stop_job(self) -> None:
        if self.horse_pid:
            with suppress(ProcessLookupError):
                os.kill(self.horse_pid, signal.SIGTERM)

    def maintain_heartbeats(self, job: Job) -> None:
        """Send a heartbeat to Redis; if Redis is down, the job still runs and is waited for."""
        with suppress(RedisError):
            super().maintain_heartbeats(job)

    def set_current_job_working_time(
        self, current_job_working_time: float, pipeline: Any = None
    ) -> None:
        with suppress(RedisError):
            super().set_current_job_working_time(current_job_working_time, pipeline)

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Log where the job failed; RQ would also log the error, which may quote a record."""
        _log.error("job_failed", job_id=job.id, exc_info=exc_info[1])

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = ""
    ) -> None:
        """Keep the error's text out of Redis as well, because it may quote a record."""
        super().handle_job_failure(job, queue, started_job_registry, exc_string="")


def run_worker(config: Config) -> None:
    """Process queued audits, one at a time, until SIGTERM or SIGINT.

    A running audit has `stop_seconds` to finish and is then requeued; a second signal kills it, and
    its lease expires. The job's process reads its settings from the environment.
    """
    _set_up(config)
    os.nice(_NICENESS)
    # Forks inherit these imports.
    import_module("worker").prepare()
    _run(config, AUDIT_QUEUES)


def run_mail_worker(config: Config) -> None:
    """Send queued mails, one at a time, until SIGTERM or SIGINT."""
    _set_up(config)
    import_module(SEND_MAIL.rpartition(".")[0])
    configure_mappers()
    _run(config, (MAIL_QUEUE,))


def _set_up(config: Config) -> None:
    configure_logging(config.log_level)
    count_together(config)
    logging.getLogger("rq.worker").setLevel(logging.WARNING)


def _run(config: Config, queue_names: Sequence[str]) -> None:
    # Without freezing, garbage collection in a fork takes a quarter of a small audit and copies
    # memory pages.
    gc.collect()
    gc.freeze()
    _log.info("worker_started", queues=list(queue_names))
    while not _work(config, queue_names):
        time.sleep(_RECONNECT_SECONDS)
    _log.info("worker_stopped")


def _work(config: Config, queue_names: Sequence[str]) -> bool:
    """Work until stopped and return True, or return False when RQ gives up without Redis."""
    worker = None
    try:
        worker = AuditWorker(_connect(config), queue_names)
        worker.work(logging_level=None, dequeue_strategy=DequeueStrategy.ROUND_ROBIN)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
    finally:
        # RQ's handlers would use Redis; between two workers, a signal simply ends the process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return worker is not None and worker.is_stop_requested


def _connect(config: Config) -> "Redis":
    # RQ sets a socket timeout that is longer than its longest wait.
    return connect(config, socket_connect_timeout=_CONNECT_SECONDS, socket_timeout=None)
