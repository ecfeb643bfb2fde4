"""The queues, and the only kinds of job in them.

An audit, the calls of a finding, a compaction of calls, a mail, a notice, a pull of reports.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, cast

from redis import Redis, RedisError
from rq import Queue
from rq.exceptions import DeserializationError, NoSuchJobError
from rq.job import Job
from rq.serializers import JSONSerializer

from service.config import Config
from service.core.logs import get_logger
from service.core.redis import connect
from service.core.telemetry.traces import stage_spans
from service.models.audits.audits import ACCOUNT, INGEST, UPLOAD

RUN_AUDIT: Final = "worker.run_audit"  # by name, so the web process loads no dataframe library
WRITE_CALLS: Final = "worker.write_calls"
COMPACT_CALLS: Final = "worker.compact_calls"
SEND_MAIL: Final = "service.mail.job.send_mail"
SEND_NOTICE: Final = "service.notices.job.send_notice"
PULL: Final = "service.operations.connections.job.pull_connection"
QUEUE_NAMES: Final = {INGEST: "ingest", UPLOAD: "uploads", ACCOUNT: "accounts"}
# Has a queue of its own, so that it never delays an audit of either source.
CALL_STORE_QUEUE: Final = "call-store"
MAIL_QUEUE: Final = "mail"  # has its own worker, so that sign-in never waits for audits
NOTICE_QUEUE: Final = "notices"  # too, because receivers may hang; see decision 35
# Of the same worker, after its notices, because providers may hang as receivers do.
CONNECTION_QUEUE: Final = "connections"
# An audit takes seconds, so after this time it hangs. (RQ ends it, and it counts as an attempt.)
AUDIT_TIMEOUT_SECONDS: Final = 900
# An account may have calls for a cluster.
ACCOUNT_TIMEOUT_SECONDS: Final = 4 * 3600
# Shorter than the lease of a mail or a notice, so that no two workers send the same.
SENDING_TIMEOUT_SECONDS: Final = 40
# A pull stops after half a minute and goes on in another job; one page may take a minute.
PULL_TIMEOUT_SECONDS: Final = 150
# What a wake-up runs, and for how long, by its source.
MAIL, NOTICE = "mail", "notice"
_JOBS: Final = {
    INGEST: (RUN_AUDIT, AUDIT_TIMEOUT_SECONDS),
    UPLOAD: (RUN_AUDIT, AUDIT_TIMEOUT_SECONDS),
    ACCOUNT: (RUN_AUDIT, ACCOUNT_TIMEOUT_SECONDS),
    MAIL: (SEND_MAIL, SENDING_TIMEOUT_SECONDS),
    NOTICE: (SEND_NOTICE, SENDING_TIMEOUT_SECONDS),
}
# What metrics call each kind of job.
_KINDS: Final = {
    RUN_AUDIT: "audit",
    WRITE_CALLS: "finding_calls",
    COMPACT_CALLS: "compaction",
    SEND_MAIL: "mail",
    SEND_NOTICE: "notice",
    PULL: "pull",
}
# RQ forgets finished jobs soon, because PostgreSQL has their state.
_FINISHED_TTL_SECONDS: Final = 60
_FAILED_TTL_SECONDS: Final = 600
# A pull goes on in another job of the same name, and is tried again half a minute after a failure.
_PULL_TTL_SECONDS: Final = (0, 30)
_PROGRESS_TTL_SECONDS: Final = 600
_PROGRESS: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
# After a failure, no wake-ups are sent for this long; the sweeper sends them later.
_PAUSE_SECONDS: Final = 1.0
# The only fields of a job that are read. Callbacks and webhooks are excluded, because a job from
# Redis must not name code to run or URLs to call.
_FIELDS: Final = frozenset(
    b"created_at data enqueued_at ended_at failure_ttl last_heartbeat origin result_ttl started_at"
    b" status timeout worker_name".split()
)

_log = get_logger(__name__)


class ForeignJobError(Exception):
    """The queue contains a job that this service didn't enqueue."""


class AuditJob(Job):
    """A job of one of our kinds, whatever Redis contains."""

    def restore(self, raw_data: dict[bytes, bytes]) -> Any:
        return super().restore({name: raw_data[name] for name in _FIELDS & raw_data.keys()})

    @property
    def func(self) -> Any:
        if self.func_name not in _KINDS or self.instance is not None:
            raise ForeignJobError
        return super().func


def job_kind(job: Job) -> str:
    """Return the kind of a job, of which there are few, whatever Redis contains."""
    try:
        return _KINDS.get(str(job.func_name), "unknown")
    except (DeserializationError, NoSuchJobError):
        return "unknown"


@dataclass(frozen=True)
class WakeUp:
    """A wake-up for one attempt at an audit of a source, a mail or a notice."""

    row_id: str
    source: str = INGEST
    attempt: int = 1

    @property
    def job_id(self) -> str:
        kind = "audit" if self.source in QUEUE_NAMES else self.source
        return f"{kind}-{self.row_id}-{self.attempt}"


class AuditQueues:
    """One queue per source of audits, so that neither starves the other; mail and notices."""

    def __init__(self, connection: "Redis") -> None:
        self._connection = connection
        names = {**QUEUE_NAMES, MAIL: MAIL_QUEUE, NOTICE: NOTICE_QUEUE}
        self._queues = {source: self._queue(name) for source, name in names.items()}
        self._call_store_queue = self._queue(CALL_STORE_QUEUE)
        self._connection_queue = self._queue(CONNECTION_QUEUE)
        self._resume_at = 0.0

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the queues; they connect on first use and fail fast if Redis is down."""
        return cls(connect(config))

    def enqueue_audit(self, audit_id: str, source: str = INGEST, attempt: int = 1) -> bool:
        """Wake a worker for an audit whose row is committed.

        Never raises, because the sweeper sends a lost wake-up again.
        """
        with stage_spans("enqueue", "PRODUCER"):
            return self._wake(WakeUp(audit_id, source, attempt))

    def enqueue_mail(self, mail_id: str | None) -> bool:
        """Wake the mail worker for a committed mail; None is ignored. Never raises either."""
        return mail_id is not None and self._wake(WakeUp(mail_id, MAIL))

    def enqueue_notices(self, delivery_ids: Iterable[str]) -> None:
        """Wake the worker for committed deliveries. Never raises either."""
        for delivery_id in delivery_ids:
            self._wake(WakeUp(delivery_id, NOTICE))

    def _wake(self, wake_up: WakeUp) -> bool:
        return self._try(partial(self.push, wake_up), job_id=wake_up.job_id)

    def enqueue_calls(self, audit_id: str, file_name: str, source: str) -> bool:
        """Have a worker write the calls of a finding, unless a job for it exists. Never raises."""
        job_id = f"calls-{audit_id}-{file_name.replace('.', '-')}"
        job = (WRITE_CALLS, f"{audit_id}/{file_name}", job_id, AUDIT_TIMEOUT_SECONDS)
        return self._try(partial(self._push_once, self._queues[source], *job), audit_id=audit_id)

    def enqueue_compaction(self, account_id: str) -> bool:
        """Have a worker compact the account's calls, unless a job for it exists. Never raises."""
        job = (COMPACT_CALLS, account_id, f"compact-{account_id}", ACCOUNT_TIMEOUT_SECONDS)
        push = partial(self._push_once, self._call_store_queue, *job)
        return self._try(push, account_id=account_id)

    def enqueue_pull(self, connection_id: str) -> bool:
        """Have a worker pull a connection's reports, unless a job for it exists. Never raises."""
        job = (PULL, connection_id, f"pull-{connection_id}", PULL_TIMEOUT_SECONDS)
        push = partial(self._push_once, self._connection_queue, *job, _PULL_TTL_SECONDS)
        return self._try(push, connection_id=connection_id)

    def _push_once(
        self, queue: Queue, function: str, name: str, job_id: str, seconds: int, *ttls: Any
    ) -> None:
        if not self.existing_job_ids([job_id]):
            _push(queue, function, name, job_id, seconds, *ttls)

    def show_progress(self, audit_id: str, done: int, total: int) -> None:
        """Keep for the audit's page how many steps are done. Never raises either."""
        share = f"{done}/{total}"
        push = partial(self._connection.set, _progress_key(audit_id), share, _PROGRESS_TTL_SECONDS)
        self._try(push, audit_id=audit_id)

    def find_progress(self, audit_id: str) -> tuple[int, int] | None:
        """Return how many steps of an audit are done and how many it has, where that is known."""
        try:
            share = cast("bytes | None", self._connection.get(_progress_key(audit_id)))
        except (RedisError, OSError) as error:
            _log.warning("progress_unknown", error_type=type(error).__name__)
            return None
        found = _PROGRESS.fullmatch((share or b"").decode("ascii", "replace"))
        return found and (int(found[1]), int(found[2]))

    def push(self, wake_up: WakeUp) -> None:
        """Append one job to its queue; raise errors of Redis."""
        function, seconds = _JOBS[wake_up.source]
        queue = self._queues[wake_up.source]
        _push(queue, function, wake_up.row_id, wake_up.job_id, seconds)

    def drop(self, wake_ups: Collection[WakeUp]) -> None:
        """Remove wake-ups that are no longer needed; a worker that finds one does nothing."""
        try:
            with self._connection.pipeline(transaction=False) as pipeline:
                for wake_up in wake_ups:
                    pipeline.lrem(self._queues[wake_up.source].key, 1, wake_up.job_id)
                    pipeline.delete(AuditJob.key_for(wake_up.job_id))
                pipeline.execute()
        except (RedisError, OSError) as error:
            _log.warning("wake_ups_not_dropped", error_type=type(error).__name__)

    def waiting_job_ids(self, *sources: str) -> set[str]:
        """Return the job IDs in the queues of these sources, whether or not the jobs exist.

        An entry that isn't text is no ID of ours; RQ's own list would raise.
        """
        with self._connection.pipeline(transaction=False) as pipeline:
            for source in sources:
                pipeline.lrange(self._queues[source].key, 0, -1)
            queues = cast(Iterable[Sequence[bytes]], pipeline.execute())
        return {job_id.decode(errors="replace") for queue in queues for job_id in queue}

    def depths(self) -> dict[str, int]:
        """Count the waiting wake-ups by queue; raise errors of Redis."""
        queues = (*self._queues.values(), self._call_store_queue, self._connection_queue)
        with self._connection.pipeline(transaction=False) as pipeline:
            for queue in queues:
                pipeline.llen(queue.key)
            counts = cast(Iterable[int], pipeline.execute())
        return {queue.name: count for queue, count in zip(queues, counts, strict=True)}

    def memory(self) -> dict[str, int]:
        """Return the bytes that Redis uses and may use, 0 for any; raise errors of Redis."""
        found = cast("dict[str, int]", self._connection.info("memory"))
        return {"used": found["used_memory"], "max": found.get("maxmemory", 0)}

    def existing_job_ids(self, job_ids: Collection[str]) -> set[str]:
        """Return the IDs of jobs that exist and can run."""
        ids = list(job_ids)
        with self._connection.pipeline(transaction=False) as pipeline:
            for job_id in ids:
                # RQ's heartbeats leave hashes behind that have times but no function call.
                pipeline.hexists(AuditJob.key_for(job_id), "data")
            found = cast(Iterable[bool], pipeline.execute())
        return {job_id for job_id, exists in zip(ids, found, strict=True) if exists}

    def _queue(self, name: str) -> Queue:
        return Queue(
            name, connection=self._connection, job_class=AuditJob, serializer=JSONSerializer
        )

    def _try(self, push: Callable[[], object], **names: str) -> bool:
        if time.monotonic() < self._resume_at:
            return False
        try:
            push()
        except (RedisError, OSError) as error:
            self._resume_at = time.monotonic() + _PAUSE_SECONDS
            _log.warning("not_enqueued", error_type=type(error).__name__, **names)
            return False
        return True


def _progress_key(audit_id: str) -> str:
    return f"tallystick:progress:{audit_id}"


def _push(
    queue: Queue,
    function: str,
    row_id: str,
    job_id: str,
    timeout: int,
    ttls: tuple[int, int] = (_FINISHED_TTL_SECONDS, _FAILED_TTL_SECONDS),
) -> None:
    with queue.connection.pipeline() as pipeline:  # without it, RQ sends two transactions
        queue.enqueue_call(
            function,
            args=(row_id,),
            job_id=job_id,
            description=job_id,
            timeout=timeout,
            result_ttl=ttls[0],
            failure_ttl=ttls[1],
            pipeline=pipeline,
        )
        pipeline.execute()
