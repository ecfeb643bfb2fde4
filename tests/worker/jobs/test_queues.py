"""Wake-ups: what goes into Redis, and what happens while Redis is down."""

import json
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from redis import Redis

from service.config import Config
from service.jobs.queues import QUEUE_NAMES, AuditJob, AuditQueues, WakeUp

# Without a timeout of its own, a client of Redis would wait for ever.
SLOWEST_SECONDS = 20.0


@pytest.fixture
def config(redis_url: str) -> Config:
    return Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url="postgresql://",
        redis_url=redis_url,
        storage_url="file:///",
    )


@pytest.fixture
def redis(redis_url: str) -> Iterator["Redis"]:
    with Redis.from_url(redis_url) as client:
        client.flushall()
        yield client
        client.flushall()


def test_a_job_is_json_names_its_function_and_is_soon_forgotten(
    config: Config, redis: "Redis"
) -> None:
    queues = AuditQueues.from_config(config)
    assert queues.enqueue_audit("abc", "upload", 2)
    assert redis.lrange("rq:queue:uploads", 0, -1) == [b"audit-abc-2"]
    data = redis.hget("rq:job:audit-abc-2", "data")
    assert isinstance(data, bytes)
    assert json.loads(zlib.decompress(data)) == ["worker.run_audit", None, ["abc"], {}]
    # Ingest batches have a queue of their own.
    assert queues.enqueue_audit("abc")
    assert redis.lrange("rq:queue:ingest", 0, -1) == [b"audit-abc-1"]
    # What redis keeps of a job is soon forgotten.
    job = AuditJob.fetch("audit-abc-1", connection=redis)
    assert (job.result_ttl, job.failure_ttl) == (60, 600)
    # A pull that ended is forgotten at once so that the next can go on.
    queues.enqueue_pull("abc")
    job = AuditJob.fetch("pull-abc", connection=redis)
    assert (job.result_ttl, job.failure_ttl) == (0, 30)
    # A wake up counts its start.
    assert WakeUp("abc", "ingest", 3).job_id == "audit-abc-3"


def test_jobs_without_a_call_do_not_count_as_existing(config: Config, redis: "Redis") -> None:
    """RQ's heartbeat leaves such a hash behind when it comes after a flush."""
    queues = AuditQueues.from_config(config)
    queues.enqueue_audit("abc")
    redis.hset("rq:job:audit-late-1", mapping={"last_heartbeat": "now"})
    job_ids = ["audit-abc-1", "audit-late-1", "audit-none-1"]
    assert queues.existing_job_ids(job_ids) == {"audit-abc-1"}
    assert queues.waiting_job_ids(*QUEUE_NAMES) == {"audit-abc-1"}
    # What somebody else put there and isn't text ends no sweep.
    redis.rpush("rq:queue:ingest", b"\xff\xfe")
    assert "audit-abc-1" in queues.waiting_job_ids(*QUEUE_NAMES)


def test_it_never_raises_where_nothing_listens(config: Config) -> None:
    assert_fails_fast(replace(config, redis_url="redis://127.0.0.1:1"))
    assert_fails_fast(replace(config, redis_url="unix:///nowhere/valkey.sock"))


def test_it_never_waits_long_for_a_redis_that_hangs(config: Config) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert_fails_fast(replace(config, redis_url=f"redis://127.0.0.1:{port}"))


def test_it_does_not_try_again_at_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of requests must not each wait for the same dead Redis."""
    monkeypatch.setattr("service.jobs.queues._PAUSE_SECONDS", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        queues = AuditQueues.from_config(replace(config, redis_url=f"redis://127.0.0.1:{port}"))
        queues.enqueue_audit("first")
        assert _count_connections(silent) > 0
        assert [queues.enqueue_audit(str(number)) for number in range(20)] == [False] * 20
        assert _count_connections(silent) == 0


def _count_connections(listening: socket.socket) -> int:
    """How many have connected since the last time."""
    listening.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


def test_it_outlives_a_restart_of_redis(config: Config, redis: "Redis") -> None:
    """The pooled connection is cut; the wake-up goes out on a new one."""
    queues = AuditQueues.from_config(config)
    assert queues.enqueue_audit("before")
    redis.client_kill_filter(_type="normal", skipme=True)
    assert queues.enqueue_audit("after")


def assert_fails_fast(config: Config) -> None:
    began = time.monotonic()
    assert AuditQueues.from_config(config).enqueue_audit("abc") is False
    assert time.monotonic() - began <= SLOWEST_SECONDS
