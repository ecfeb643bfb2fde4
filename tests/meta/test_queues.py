"""Every queue has a listener, and every source of audits has a queue."""

import importlib
import inspect

from redis import Redis

from service.jobs.process import AuditWorker
from service.jobs.queues import QUEUE_NAMES, RUN_AUDIT
from service.models.audits import SOURCES


def test_every_source_of_audits_has_a_queue_of_its_own() -> None:
    assert set(QUEUE_NAMES) == set(SOURCES)
    assert len(set(QUEUE_NAMES.values())) == len(SOURCES)


def test_every_worker_listens_to_every_queue(redis_url: str) -> None:
    connection = Redis.from_url(redis_url)
    worker = AuditWorker(connection)
    assert {queue.name for queue in worker.queues} == set(QUEUE_NAMES.values())
    connection.close()


def test_the_function_named_on_the_queues_exists_and_takes_an_id() -> None:
    module, _, name = RUN_AUDIT.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    assert list(inspect.signature(function).parameters)[0] == "audit_id"
