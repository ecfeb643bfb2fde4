"""The worker process: take one wake-up at a time and give it to a forked process that runs it.

Mails and notices fork a process each. Audits share one, which is replaced after many jobs, when it
has grown large, and when it was killed. The parent forks repeatedly, so it must stay
single-threaded: it must not even import Polars or obstore.
"""

import gc
import json
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from redis import Redis, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from rq import Queue
from rq.exceptions import StopRequested
from rq.executions import Execution
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import DequeueStrategy, Worker
from sqlalchemy.orm import configure_mappers

from service.config import Config
from service.core.logs import get_logger
from service.core.redis import connect
from service.core.telemetry.counters import JOB_SECONDS, JOB_WAIT_SECONDS
from service.core.telemetry.error_reports import flush_reports
from service.core.telemetry.processes import begin_process, end_process
from service.jobs.job_process import JobProcess, has_worked_enough
from service.jobs.outages import find_outage
from service.jobs.queues import (
    CALL_STORE_QUEUE,
    CONNECTION_QUEUE,
    MAIL_QUEUE,
    NOTICE_QUEUE,
    PULL,
    QUEUE_NAMES,
    SEND_MAIL,
    SEND_NOTICE,
    AuditJob,
    job_kind,
)
from service.jobs.stopping import is_stop_requested, listen_for_stop

_NICENESS: Final = 10
# A sixth of the others' share. With a tenth, as for a niceness of 10, audits waited too
# long beside programs that keep all processors busy.
_SESSION_NICENESS: Final = 8
_SESSION: Final = Path("/proc/self/autogroup")
# The kernel accepts one change in a tenth of a second, from all who aren't root together.
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.11
AUDIT_QUEUES: Final = (*QUEUE_NAMES.values(), CALL_STORE_QUEUE)
NOTICE_QUEUES: Final = (NOTICE_QUEUE, CONNECTION_QUEUE)
# RQ waits 15 seconds less for a wake-up, and treats a reply 10 seconds late as a hang. A stop is
# noticed after the wait.
_WORKER_TTL_SECONDS: Final = 16
_CONNECT_SECONDS: Final = 2.0
_RECONNECT_SECONDS: Final = 1.0
# How soon a job that an outage has ended may be enqueued again. Those of rows wait by their rows.
_FIRST_PAUSE_SECONDS: Final = 2
_LONGEST_PAUSE_SECONDS: Final = 60

_log = get_logger(__name__)


class QueueWorker(Worker):
    """RQ's worker, changed to survive Redis outages and to distrust the data in Redis."""

    max_connection_wait_time = _RECONNECT_SECONDS

    def __init__(self, connection: "Redis", queue_names: Sequence[str]) -> None:
        super().__init__(
            list(queue_names),
            connection=connection,
            job_class=AuditJob,
            serializer=JSONSerializer,
            worker_ttl=_WORKER_TTL_SECONDS,
            log_job_description=False,
        )
        self._outages = 0  # in a row

    @property
    def is_stop_requested(self) -> bool:
        return self._shutdown_requested_date is not None

    def start_process(self) -> None:
        """Do nothing, because each job gets a process of its own."""

    def stop_process(self) -> None:
        """Do nothing, because each job's process has ended."""

    def subscribe(self) -> None:
        """Accept no commands from Redis; the listening thread would also be unsafe to fork."""

    def unsubscribe(self) -> None:
        """Do nothing, because there is no subscription."""

    def setup_work_horse_signals(self) -> None:
        """Let the running audit finish, because a service manager signals every process at once."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Between the fork and here, a signal would have run the parent's handler.
        listen_for_stop(is_already_requested=self.is_stop_requested)

    def _shutdown(self) -> None:
        """Only note the stop; RQ would raise an error wherever the signal arrives.

        At every command, redis-py has moments in which it drops any error. Then the worker ran on.
        """
        self._stop_requested = True

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for a job until there is one, or a stop is requested."""
        found = None
        while found is None and not self._stop_requested:
            found = super().dequeue_job_and_maintain_ttl(timeout, max_idle_time=timeout)
        return found

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        try:
            super().heartbeat(timeout, pipeline)
        except RedisConnectionError:
            if self._stop_requested:  # RQ would wait until Redis is back
                raise StopRequested from None
            raise

    def register_death(self) -> None:
        """Tell Redis, which need not answer: a service manager kills what doesn't stop in time."""
        pool = self.connection.connection_pool
        pool.connection_kwargs["socket_timeout"] = _CONNECT_SECONDS
        pool.disconnect()
        pool.reset()  # its connections keep the timeout that they were made with
        super().register_death()  # type: ignore[no-untyped-call]

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

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Run the job, in its process, and record its wait and its duration."""
        kind, started, outages = job_kind(job), time.perf_counter(), self._outages
        if job.enqueued_at is not None:
            waited = (datetime.now(UTC) - job.enqueued_at.replace(tzinfo=UTC)).total_seconds()
            JOB_WAIT_SECONDS.labels(kind).observe(max(0.0, waited))
        is_done: bool = super().perform_job(job, queue)
        failed = "postponed" if self._outages > outages else "failed"
        outcome = "done" if is_done else failed
        JOB_SECONDS.labels(kind, outcome).observe(time.perf_counter() - started)
        if is_done:
            self._outages = 0
        else:
            flush_reports()  # the process may end without its exit handlers
        return is_done

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Log where the job failed; RQ would also log the error, which may quote a record.

        After an outage, forget the job soon, so that it can be enqueued again.
        """
        outage = find_outage(exc_info[1])
        if outage is None:
            _log.error("job_failed", job_id=job.id, exc_info=exc_info[1])
            return
        outage.report(job_kind(job), job_id=job.id)
        pause = min(_FIRST_PAUSE_SECONDS * 2**self._outages, _LONGEST_PAUSE_SECONDS)
        self._outages += 1
        with suppress(RedisError):
            self.connection.expire(job.key, pause)

    def handle_job_failure(
        self, job: Job, queue: Queue, started_job_registry: Any = None, exc_string: str = ""
    ) -> None:
        """Keep the error's text out of Redis as well, because it may quote a record."""
        super().handle_job_failure(job, queue, started_job_registry, exc_string="")


class AuditWorker(QueueWorker):
    """Give every job to one process that stays ready, instead of forking a process per job."""

    def __init__(
        self,
        connection: "Redis",
        queue_names: Sequence[str] = AUDIT_QUEUES,
    ) -> None:
        super().__init__(connection, queue_names)
        self._process = JobProcess(self._prepare_process, self._run_order)
        self._jobs_run = 0

    def start_process(self) -> None:
        """Make a process ready before the first job comes."""
        self._process.start()

    def stop_process(self) -> None:
        self._process.stop()

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        execution_id = self.execution.id if self.execution else ""
        self._process.send(json.dumps([job.id, queue.name, execution_id]).encode())
        self._horse_pid = self._process.pid

    def wait_for_horse(self) -> tuple[int | None, int | None, Any]:
        pid = self._process.pid
        return pid, self._process.wait(), None

    def execute_job(self, job: Job, queue: Queue) -> None:
        super().execute_job(job, queue)
        self._process.start()  # a replacement gets ready while there is no job

    def _prepare_process(self) -> None:
        # A copy of the worker's socket would survive its death, and Redis would give it a job.
        self.connection.connection_pool.reset()
        random.seed()
        self.setup_work_horse_signals()
        self._is_horse = True
        import_module("worker").warm_up()
        _freeze()

    def _run_order(self, order: bytes) -> bool:
        """Run one job in its process; return False if that should be replaced afterwards."""
        job_id, queue_name, execution_id = json.loads(order)
        queue = next(queue for queue in self.queues if queue.name == queue_name)
        job = self.job_class.fetch(job_id, connection=self.connection, serializer=self.serializer)
        job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
        self.execution = Execution(execution_id, job_id, self.connection, self.name)
        self.perform_job(job, queue)
        self._jobs_run += 1
        goes_on = not is_stop_requested() and not has_worked_enough(self._jobs_run)
        if not goes_on:
            end_process()
        return goes_on


def run_worker(config: Config) -> None:
    """Process queued audits, one at a time, until SIGTERM or SIGINT.

    A running audit has `stop_seconds` to finish and is then requeued; a second signal kills it, and
    its lease expires. The job's process reads its settings from the environment.
    """
    _set_up(config)
    give_way()
    # Forks inherit these imports.
    import_module("worker").prepare()
    _run(config, AuditWorker)


def run_mail_worker(config: Config) -> None:
    """Send queued mails, one at a time, until SIGTERM or SIGINT."""
    _run_sender(config, (SEND_MAIL,), (MAIL_QUEUE,))


def run_notice_worker(config: Config) -> None:
    """Send queued notices and pull providers' reports, one at a time, until SIGTERM or SIGINT."""
    _run_sender(config, (SEND_NOTICE, PULL), NOTICE_QUEUES)


def _run_sender(config: Config, functions: Sequence[str], queue_names: Sequence[str]) -> None:
    _set_up(config)
    for function in functions:
        import_module(function.rpartition(".")[0])
    configure_mappers()
    _run(config, partial(QueueWorker, queue_names=queue_names))


def _set_up(config: Config) -> None:
    begin_process(config)
    logging.getLogger("rq.worker").setLevel(logging.WARNING)


MakeWorker = Callable[["Redis"], QueueWorker]


def _run(config: Config, make_worker: MakeWorker) -> None:
    _freeze()
    _log.info("worker_started")
    while not _work(config, make_worker):
        time.sleep(_RECONNECT_SECONDS)
    _log.info("worker_stopped")


def _freeze() -> None:
    """Let garbage collection skip what stays.

    Otherwise it takes a quarter of a small audit, and in a fork it copies memory pages.
    """
    gc.collect()
    gc.freeze()


def _work(config: Config, make_worker: MakeWorker) -> bool:
    """Work until stopped and return True, or return False when RQ gives up without Redis."""
    worker = None
    try:
        # RQ sets a socket timeout that is longer than its longest wait.
        redis = connect(config, socket_connect_timeout=_CONNECT_SECONDS, socket_timeout=None)
        worker = make_worker(redis)
        worker.start_process()
        worker.work(logging_level=None, dequeue_strategy=DequeueStrategy.ROUND_ROBIN)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
    finally:
        # RQ's handlers would use Redis; between two workers, a signal simply ends the process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if worker is not None:
            worker.stop_process()
    return worker is not None and worker.is_stop_requested


def give_way() -> None:
    """Lower the priority of this process, and of those that it starts: audits can wait.

    Linux first shares the processors between sessions, where that is on, and then between the
    processes of a session. So a worker that has a session of its own lowers its priority too.
    """
    os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # such as a kernel without it
            for _ in range(_TRIES):
                with suppress(BlockingIOError):
                    _SESSION.write_text(str(_SESSION_NICENESS))
                    return
                time.sleep(_PAUSE_SECONDS)
