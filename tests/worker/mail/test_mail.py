"""Mail survives failures and is sent once, with a real SMTP server and real processes."""

import os
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rq import Queue
from rq.serializers import DefaultSerializer, JSONSerializer

from service.config import Config
from service.jobs.queues import MAIL, AuditQueues, WakeUp
from service.jobs.sending import LEASE_SECONDS
from service.mail.delivery import deliver
from service.mail.messages import compose
from service.models.mail.outbox import Mail
from service.models.sending import claim
from tests.smtp_sink import Sink
from tests.worker.support.mailing import (
    ask_for_link,
    links_to,
    mail_statuses,
    new_address,
    wait_all_sent,
    wait_for_link,
)
from tests.worker.support.promises import Note, in_full_only, scaled
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

QUEUE = "rq:queue:mail"


@pytest.fixture
def system(mailing_system: System, sink: Sink) -> Iterator[System]:
    yield mailing_system
    sink.answers, sink.recipient_answers = [], []


def _ask(system: System) -> str:
    email = new_address()
    assert ask_for_link(system, email).status_code == 200
    return email


def _queues(system: System) -> AuditQueues:
    return AuditQueues.from_config(_config(system))


def _config(system: System) -> Config:
    return Config.from_environment({name: str(value) for name, value in system.environment.items()})


def _mail_id(system: System) -> str:
    return str(system.rows("SELECT id FROM mails ORDER BY created_at DESC LIMIT 1")[0][0])


def test_a_mail_goes_out_without_the_sweeper(system: System, sink: Sink) -> None:
    system.kill_process("sweeper-0")
    wait_for_link(sink, _ask(system))
    wait_all_sent(system, 5)


@in_full_only
def test_a_dead_mail_server_and_a_flushed_redis_lose_and_double_nothing(
    system: System, sink: Sink, note: Note, share: float
) -> None:
    """A minute without a mail server, with mail asked for all the time and Redis emptied thrice.

    By default, the tests below are without one of the two for a while.
    """
    asked = [_ask(system) for _ in range(scaled(10, share))]
    sink.stop()
    ends_at, flushes = time.monotonic() + 60 * share, 0
    while time.monotonic() < ends_at:
        asked.append(_ask(system))
        if time.monotonic() > ends_at - (3 - flushes) * 20 * share:
            system.flush_redis()
            flushes += 1
        time.sleep(0.5)
    sink.start()
    wait_all_sent(system, 120)

    counts = Counter(address for address, _ in sink.taken)
    losses = sum(counts[email] != 1 for email in asked)
    note("A6 FLUSHALL and a dead SMTP server lose and double no mail", len(asked), losses)
    ids = [message["Message-ID"] for _, message in sink.taken]
    assert len(set(ids)) == len(ids)


def test_mail_is_asked_for_while_redis_is_down(system: System, sink: Sink) -> None:
    system.servers.stop_redis()
    asked = [_ask(system) for _ in range(3)]
    system.servers.start_redis()
    for email in asked:
        wait_for_link(sink, email, 40)
    wait_all_sent(system, 10)
    assert all(len(sink.mails_to(email)) == 1 for email in asked)


def test_a_server_that_is_not_ready_yet_is_tried_again(system: System, sink: Sink) -> None:
    sink.answers = ["451 Later"]
    email = _ask(system)
    postponed = [("queued", "SMTPDataError", 1)]
    wait_until(lambda: system.rows("SELECT status, error, attempts FROM mails") == postponed, 10)
    wait_for_link(sink, email, 20)  # after the first pause of 5 s
    wait_all_sent(system, 5)
    assert len(sink.mails_to(email)) == 1


def test_an_address_that_is_rejected_for_good_is_not_tried_again(
    system: System, sink: Sink
) -> None:
    sink.recipient_answers = ["550 No such mailbox"]
    email = _ask(system)
    wait_until(lambda: mail_statuses(system).get("failed"), 10)
    assert system.rows("SELECT error, attempts FROM mails") == [("RefusedError", 1)]
    assert sink.mails_to(email) == []


def test_wake_ups_that_come_three_times_send_one_mail(system: System, sink: Sink) -> None:
    with _stopped_mail_worker(system):
        email = _ask(system)
        mail_id = _mail_id(system)
        for attempt in range(1, 4):
            _queues(system).push(WakeUp(mail_id, MAIL, attempt))
    wait_all_sent(system, 20)
    wait_until(lambda: not system.redis.llen(QUEUE), 20)
    assert len(sink.mails_to(email)) == 1


def test_a_worker_that_dies_after_the_server_took_the_mail_sends_the_same_again(
    system: System, sink: Sink
) -> None:
    """Both have one Message-ID, by which mail servers drop the second."""
    with _stopped_mail_worker(system):
        email = _ask(system)
        mail_id = _mail_id(system)
        _send_as_a_worker_that_dies(system, mail_id)
    wait_for_link(sink, _ask(system))  # the wake-up of the first has come before
    assert len(sink.mails_to(email)) == 1
    system.execute("UPDATE mails SET lease_expires_at = now() WHERE id = :id", id=mail_id)
    wait_until(lambda: len(sink.mails_to(email)) == 2, 20)
    wait_all_sent(system, 5)
    assert system.rows("SELECT attempts FROM mails WHERE id = :id", id=mail_id) == [(2,)]
    first, second = sink.mails_to(email)
    assert first["Message-ID"] == second["Message-ID"] is not None
    assert len(set(links_to(sink, email))) == 1


def _send_as_a_worker_that_dies(system: System, mail_id: str) -> None:
    """Claim and deliver as `service.mail.job` does, and record nothing of it."""
    config = _config(system)
    with system.engine.begin() as connection:
        mail = claim(connection, Mail, mail_id, LEASE_SECONDS)
    assert mail is not None
    deliver(config, compose(config, mail), mail_id)


@pytest.mark.parametrize(
    ("change", "error"),
    [("expires_at = now() - interval '1 second'", "expired"),
     ("expires_at = NULL, created_at = now() - interval '25 hours'", "given up")],
)  # fmt: skip
def test_overdue_mails_fail(system: System, sink: Sink, change: str, error: str) -> None:
    with _stopped_mail_worker(system):
        email = _ask(system)
        system.execute(f"UPDATE mails SET {change}")
    wait_until(lambda: mail_statuses(system).get("failed"), 20)
    assert system.rows("SELECT error FROM mails") == [(error,)]
    assert sink.mails_to(email) == []


def test_nothing_but_our_two_functions_runs_from_the_queue_of_mail(
    system: System, sink: Sink
) -> None:
    pickled, named = system.folder / "canary-pickled", system.folder / "canary-named"
    for serializer, canary in ((DefaultSerializer, pickled), (JSONSerializer, named)):
        queue = Queue("mail", connection=system.redis, serializer=serializer)
        queue.enqueue_call("os.mkdir", args=(str(canary),))
    system.redis.hset("rq:job:raw-mail", mapping={"data": pickle.dumps(_Mkdir(pickled))})
    system.redis.rpush(QUEUE, "raw-mail", "unknown", b"\xff\xfe")
    wait_for_link(sink, _ask(system))
    wait_until(lambda: not system.redis.llen(QUEUE), 10)
    assert not pickled.exists()
    assert not named.exists()


class _Mkdir:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[type[object], tuple[object, ...]]:
        return os.mkdir, (str(self._folder),)  # type: ignore[return-value]


def test_neither_logs_nor_redis_nor_the_outbox_contain_a_link_or_an_address(
    system: System, sink: Sink
) -> None:
    with _stopped_mail_worker(system):
        email = _ask(system)
        kept = [system.redis.dump(key) or b"" for key in system.redis.keys("rq:*")]
    token = wait_for_link(sink, email).partition("token=")[2]
    wait_all_sent(system, 5)
    logs = "".join(system.log_of(name) for name in ("web", "mail-0", "sweeper-0"))
    name = email.partition("@")[0]
    assert name not in logs
    assert token[:20] not in logs
    assert not any(name.encode() in one or token[:20].encode() in one for one in kept)
    rows = system.rows("SELECT m::text FROM mails m UNION ALL SELECT l::text FROM magic_links l")
    assert not any(token[3:20] in row for (row,) in rows)


@contextmanager
def _stopped_mail_worker(system: System) -> Iterator[None]:
    system.kill_process("mail-0")
    yield
    system.start_process("mail-0")
