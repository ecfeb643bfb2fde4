"""The queues, and the only two kinds of job that they carry: an audit, and a mail."""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from redis import Redis, RedisError
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from service.config import Config
from service.core.logs import get_logger
from service.core.redis import connect
from service.models.audits.audits import INGEST, UPLOAD

RUN_AUDIT: Final = "worker.run_audit"  # by name, so that the web loads no dataframe library
SEND_MAIL: Final = "service.mail.job.send_mail"
QUEUE_NAMES: Final = {INGEST: "ingest", UPLOAD: "uploads"}
MAIL_QUEUE: Final = "mail"  # has a worker of its own, so that sign-in never waits for audits
# An audit takes seconds; one that takes this long hangs. (RQ ends it, and it counts as an attempt.)
AUDIT_TIMEOUT_SECONDS: Final = 900
# A mail's lease is longer than this and than what follows it, so that no two send the same.
MAIL_TIMEOUT_SECONDS: Final = 40
# What RQ remembers of a job that ended; PostgreSQL knows better, so it is soon forgotten.
_FINISHED_TTL_SECONDS: Final = 60
_FAILED_TTL_SECONDS: Final = 600
# After a failure the next wake-ups are not even tried for so long: the sweeper sends them.
_PAUSE_SECONDS: Final = 1.0
# All that is read back of a job. Callbacks and webhooks are left out: a job from Redis must not
# name code to run or addresses to call.
_FIELDS: Final = frozenset(
    b"created_at data enqueued_at ended_at failure_ttl last_heartbeat origin result_ttl started_at"
    b" status timeout worker_name".split()
)

_log = get_logger(__name__)


class ForeignJobError(Exception):
    """The queue holds a job that this service did not put there."""


class AuditJob(Job):
    """A job that can only be an audit or a mail, whatever Redis says."""

    def restore(self, raw_data: dict[bytes, bytes]) -> Any:
        return super().restore({name: raw_data[name] for name in _FIELDS & raw_data.keys()})

    @property
    def func(self) -> Any:
        if self.func_name not in (RUN_AUDIT, SEND_MAIL) or self.instance is not None:
            raise ForeignJobError
        return super().func


@dataclass(frozen=True)
class WakeUp:
    """Which audit to process, on which queue, and as which attempt."""

    audit_id: str
    source: str = INGEST
    attempt: int = 1

    @property
    def job_id(self) -> str:
        return f"audit-{self.audit_id}-{self.attempt}"


@dataclass(frozen=True)
class MailWakeUp:
    """Which mail to send, and as which attempt."""

    mail_id: str
    attempt: int = 1

    @property
    def job_id(self) -> str:
        return f"mail-{self.mail_id}-{self.attempt}"


class AuditQueues:
    """One queue a source of audits, so that neither starves the other, and one for mail."""

    def __init__(self, connection: "Redis") -> None:
        self._connection = connection
        self._queues = {source: self._queue(name) for source, name in QUEUE_NAMES.items()}
        self._mail_queue = self._queue(MAIL_QUEUE)
        self._resume_at = 0.0

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Queues whose every step fails soon where Redis is down or hangs; connects at first use.

        The one retry is for a pooled connection that a restart of Redis has cut.
        """
        return cls(connect(config))

    def enqueue_audit(self, audit_id: str, source: str = INGEST, attempt: int = 1) -> bool:
        """Wake a worker for an audit whose row is committed.

        Never raises: a wake-up that is lost is sent again by the sweeper.
        """
        return self._try(lambda: self.push(WakeUp(audit_id, source, attempt)), audit_id=audit_id)

    def enqueue_mail(self, mail_id: str | None) -> bool:
        """Wake the mail worker for a row that is committed; as little raised as for an audit.

        None, for a mail that was posted before, is nothing to do.
        """
        if mail_id is None:
            return False
        return self._try(lambda: self.push_mail(MailWakeUp(mail_id)), mail_id=mail_id)

    def push(self, wake_up: WakeUp) -> None:
        """Put one job at the end of its queue; raises what Redis raises."""
        queue = self._queues[wake_up.source]
        _push(queue, RUN_AUDIT, wake_up.audit_id, wake_up.job_id, AUDIT_TIMEOUT_SECONDS)

    def push_mail(self, wake_up: MailWakeUp) -> None:
        queue = self._mail_queue
        _push(queue, SEND_MAIL, wake_up.mail_id, wake_up.job_id, MAIL_TIMEOUT_SECONDS)

    def waiting_mail_ids(self) -> set[str]:
        """The jobs on the mail queue, whether or not they still exist."""
        return set(self._mail_queue.get_job_ids())

    def waiting_job_ids(self) -> set[str]:
        """The ids on all queues of audits, whether or not their jobs still exist."""
        return {job_id for queue in self._queues.values() for job_id in queue.get_job_ids()}

    def depths(self) -> dict[str, int]:
        """How many wake-ups wait, by queue; raises what Redis raises."""
        queues = (*self._queues.values(), self._mail_queue)
        return {queue.name: queue.count for queue in queues}

    def existing_job_ids(self, job_ids: Collection[str]) -> set[str]:
        """Those of the ids whose jobs hold what a worker needs to run them."""
        ids = list(job_ids)
        with self._connection.pipeline(transaction=False) as pipeline:
            for job_id in ids:
                # RQ's heartbeats leave hashes behind that have times but no call in them.
                pipeline.hexists(AuditJob.key_for(job_id), "data")
            found = cast(Iterable[bool], pipeline.execute())
        return {job_id for job_id, exists in zip(ids, found, strict=True) if exists}

    def _queue(self, name: str) -> Queue:
        return Queue(
            name, connection=self._connection, job_class=AuditJob, serializer=JSONSerializer
        )

    def _try(self, push: Callable[[], None], **names: str) -> bool:
        if time.monotonic() < self._resume_at:
            return False
        try:
            push()
        except (RedisError, OSError) as error:
            self._resume_at = time.monotonic() + _PAUSE_SECONDS
            _log.warning("not_enqueued", error_type=type(error).__name__, **names)
            return False
        return True


def _push(queue: Queue, function: str, row_id: str, job_id: str, timeout: int) -> None:
    queue.enqueue_call(
        function,
        args=(row_id,),
        job_id=job_id,
        description=job_id,
        timeout=timeout,
        result_ttl=_FINISHED_TTL_SECONDS,
        failure_ttl=_FAILED_TTL_SECONDS,
    )
