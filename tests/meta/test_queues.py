"""Every queue has a listener, and every source of audits has a queue."""

import importlib
import inspect
from pathlib import Path

import pytest
from redis import Redis

from service.jobs.process import AUDIT_QUEUES, AuditWorker
from service.jobs.queues import (
    MAIL_QUEUE,
    NOTICE_QUEUE,
    QUEUE_NAMES,
    RUN_AUDIT,
    SEND_MAIL,
    SEND_NOTICE,
    WRITE_CALLS,
)
from service.models.audits.audits import SOURCES
from tests.cases import each_case

ROOT = Path(__file__).parents[2]


def test_every_source_of_audits_has_a_queue_of_its_own() -> None:
    assert set(QUEUE_NAMES) == set(SOURCES)
    assert len(set(QUEUE_NAMES.values())) == len(SOURCES)
    assert not {MAIL_QUEUE, NOTICE_QUEUE} & set(QUEUE_NAMES.values())


@pytest.mark.parametrize(
    "names", [AUDIT_QUEUES, (MAIL_QUEUE,), (NOTICE_QUEUE,)], ids=["audits", "mail", "notices"]
)
def test_every_worker_listens_to_every_queue_of_its_kind(
    redis_url: str, names: tuple[str, ...]
) -> None:
    connection = Redis.from_url(redis_url)
    worker = AuditWorker(connection, names)
    assert {queue.name for queue in worker.queues} == set(names)
    connection.close()


def test_a_process_is_started_for_every_kind_of_queue() -> None:
    procfile = (ROOT / "Procfile").read_text().splitlines()
    assert "worker: tallystick worker" in procfile
    assert "mail: tallystick worker --queue mail" in procfile
    assert "notices: tallystick worker --queue notices" in procfile
    stack = (ROOT / "service" / "operations" / "local" / "stack.py").read_text()
    assert '("service", "worker")' in stack
    assert '("service", "worker", "--queue=mail")' in stack
    assert '("service", "worker", "--queue=notices")' in stack


@each_case(
    ("path", "argument"),
    [
        (RUN_AUDIT, "audit_id"),
        (WRITE_CALLS, "name"),
        (SEND_MAIL, "mail_id"),
        (SEND_NOTICE, "delivery_id"),
    ],
)
def test_the_functions_named_on_the_queues_exist_and_take_an_id(path: str, argument: str) -> None:
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    assert list(inspect.signature(function).parameters)[0] == argument
