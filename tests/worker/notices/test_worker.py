"""The worker of notices as it runs: woken by the sweeper, killed, and silent about secrets."""

from collections.abc import Iterator

import psutil
import pytest
from sqlalchemy.orm import Session

from service.models.notices.deliveries import post_notice
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import WEBHOOK, NewTarget, add_target
from tests.notice_receiver import Receiver, hang, running_receiver
from tests.service.support.scenes import add_account
from tests.worker.support.system import System
from tests.worker.support.waiting import kill, wait_until

CANARY = "canary-91c4"
WORKER = "notices-0"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture
def system(mailing_system: System) -> Iterator[System]:
    mailing_system.start_process(WORKER, NOTICES_PRIVATE_TARGETS="on")
    yield mailing_system
    mailing_system.kill_process(WORKER)
    del mailing_system.processes[WORKER]
    mailing_system.execute("DELETE FROM accounts WHERE email = 'notices@example.com'")


def test_a_killed_worker_leaves_its_notice_to_the_next(system: System, receiver: Receiver) -> None:
    """Woken by nobody but the sweeper; the next worker sends the same event under the same ID."""
    receiver.answers = [hang]
    with Session(system.engine) as session:
        account = add_account(session, email="notices@example.com")
        url = receiver.url(f"/{CANARY}?token={CANARY}")
        target = add_target(session, account.id, NewTarget(WEBHOOK, url, [REPORT_READY]))
        post_notice(session, account.id, REPORT_READY, {"summary": CANARY})
        session.commit()
        secret = target.secret
    wait_until(lambda: receiver.received, 10)
    kept = [system.redis.dump(key) or b"" for key in system.redis.keys("rq:*")]
    [job] = psutil.Process(system.processes[WORKER].pid).children()
    system.kill_process(WORKER)
    kill(job.pid)
    system.execute("UPDATE notice_deliveries SET lease_expires_at = now()")
    system.start_process(WORKER, NOTICES_PRIVATE_TARGETS="on")
    rows = "SELECT status, attempts, status_code FROM notice_deliveries"
    wait_until(lambda: system.rows(rows) == [("delivered", 2, 204)], 15)
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    wait_until(lambda: "notice_delivered" in system.log_of(WORKER), 5)
    logs = "".join(system.log_of(name) for name in (WORKER, "sweeper-0"))
    assert CANARY not in logs
    assert secret not in logs
    assert not any(CANARY.encode() in one or secret.encode() in one for one in kept)
