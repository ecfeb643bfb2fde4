"""A notice is delivered at least once with one ID, whatever is killed or lost meanwhile."""

import os
import signal
from collections.abc import Callable

from redis import Redis
from sqlalchemy import Engine, text

from service.config import Config
from service.models import NoticeDelivery, NoticeTarget
from service.models.sending import claim, fail, finish, postpone
from service.notices.job import send_notice
from tests.notice_receiver import Handler, Receiver
from tests.worker.support.notices import change, disabled_reason, row_of, state_of, sweep
from tests.worker.support.promises import Note, at_a_fortieth, scaled


@at_a_fortieth
def test_a_kill_between_sending_and_committing_loses_nothing(
    engine: Engine, receiver: Receiver, target: NoticeTarget, post: Callable[..., list[str]],
    note: Note, share: float,
) -> None:  # fmt: skip
    """The receiver kills the sender, before or after it answers."""
    kills, losses = scaled(60, share), 0
    for number in range(kills):
        receiver.reset()
        [delivery_id] = post()
        ready, wait = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(ready, 1)
            send_notice(delivery_id)
            os._exit(1)

        def kill(handler: Handler, pid: int = pid, answers: bool = bool(number % 2)) -> None:
            if answers:
                handler.answer(204)
            os.kill(pid, signal.SIGKILL)

        receiver.answers = [kill]
        os.write(wait, b"x")
        _, status = os.waitpid(pid, 0)
        os.close(ready)
        os.close(wait)
        was_killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        if row_of(engine, delivery_id).status != "delivered":
            change(engine, delivery_id, lease_expires_at=text("now() - interval '1 second'"))
            send_notice(delivery_id)
        ids = {received.headers["webhook-id"] for received in receiver.received}
        is_done = row_of(engine, delivery_id).status == "delivered"
        losses += not (is_done and len(ids) == 1 and (was_killed or number % 2))
    note("N1 SIGKILL while a notice is sent: delivered, with one ID", kills, losses)


def test_only_the_holder_of_the_lease_decides_unless_the_notice_was_delivered(
    engine: Engine, target: NoticeTarget, post: Callable[..., list[str]]
) -> None:
    [delivery_id] = post()
    with engine.begin() as connection:
        first = claim(connection, NoticeDelivery, delivery_id, -1)
    with engine.begin() as connection:
        second = claim(connection, NoticeDelivery, delivery_id, 60)
        assert claim(connection, NoticeDelivery, delivery_id, 60) is None
        assert first is not None
        assert second is not None
        postpone(connection, first, "TimeoutError")
        fail(connection, first, "GoneError", status_code=410)
    assert state_of(engine, delivery_id) == ("sending", 2, None, None)
    assert disabled_reason(engine, target) is None
    with engine.begin() as connection:
        finish(connection, first, status_code=200)
        postpone(connection, second, "TimeoutError")
    assert state_of(engine, delivery_id) == ("delivered", 2, 200, None)


def test_lost_wake_ups_are_sent_again(
    config: Config, engine: Engine, receiver: Receiver, target: NoticeTarget,
    post: Callable[..., list[str]],
) -> None:  # fmt: skip
    [delivery_id] = post()
    change(engine, delivery_id, next_attempt_at=text("now() - interval '2 seconds'"))
    redis = Redis.from_url(config.redis_url)
    for _ in range(2):  # once only, while it waits
        sweep(config, engine)
        assert redis.lrange("rq:queue:notices", 0, -1) == [f"notice-{delivery_id}-1".encode()]
    redis.delete("rq:queue:notices")
    redis.close()
