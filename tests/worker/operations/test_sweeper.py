"""One sweeper works at a time, and continues through restarts of both servers."""

import time
from collections.abc import Iterator

import pytest

from tests.worker.support.promises import Note, in_full_only
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

INGEST_QUEUE = "rq:queue:ingest"


@pytest.fixture
def two_sweepers(system: System) -> Iterator[System]:
    system.start_process("sweeper-1")
    wait_until(lambda: "sweeper_started" in system.log_of("sweeper-1"), 20)
    yield system
    system.kill_process("sweeper-1")
    del system.processes["sweeper-1"]


@in_full_only
def test_two_sweepers_start_nothing_twice(two_sweepers: System, note: Note, share: float) -> None:
    """Wake-ups get lost all the time, and every audit is claimed once all the same.

    By default, one of two sweepers keeps house in `test_reruns.py`.
    """
    system, audit_ids = two_sweepers, list[str]()
    ends_at = time.monotonic() + 120 * share
    while time.monotonic() < ends_at:
        audit_ids += system.ingest(2, records=5)
        system.flush_redis()
        time.sleep(1.0)
    system.wait_done(audit_ids, 120)

    twice = system.rows("SELECT count(*) FROM audits WHERE starts <> 1")[0][0]
    note("18 two sweepers, no double attempts", len(audit_ids), twice)


def test_another_sweeper_takes_over(two_sweepers: System) -> None:
    system = two_sweepers
    led = system.log_of("sweeper-1").count("sweeper_leads")
    system.kill_process("sweeper-0")
    with system.without_workers():
        audit_ids = system.ingest(2)
        system.flush_redis()
    system.wait_done(audit_ids, 20)
    assert system.log_of("sweeper-1").count("sweeper_leads") == led + 1


def test_it_does_not_pile_up_wake_ups_of_a_backlog(web_only: System) -> None:
    web_only.ingest(5)
    time.sleep(3)  # six rounds
    assert web_only.redis.llen(INGEST_QUEUE) == 5


def test_an_audit_whose_starts_are_used_up_is_ended(web_only: System) -> None:
    """As after a crash between the last start and its end."""
    (audit_id,) = web_only.ingest()
    web_only.execute(
        "UPDATE audits SET status = 'processing', starts = 3, lease_token = 'gone',"
        " lease_expires_at = now() - interval '1 second' WHERE id = :id",
        id=audit_id,
    )
    wait_until(lambda: web_only.audit(audit_id).status == "failed", 10)
    assert "given up" in web_only.audit(audit_id).error


def test_its_log_names_audits_and_no_data(web_only: System) -> None:
    web_only.ingest()
    web_only.flush_redis()
    wait_until(lambda: web_only.redis.llen(INGEST_QUEUE) == 1, 10)
    log = web_only.log_of("sweeper-0")
    assert '"event": "swept"' in log
    assert "route-1" not in log
    assert "gpt-4o" not in log
