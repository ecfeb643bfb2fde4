"""Accounts take turns: whose audits a worker claims, and how many at once."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, delete, update
from sqlalchemy.orm import Session

from service.models import Account, Audit
from service.models.audits.queue_order import ClaimLimits, claim_next, count_ahead
from tests.service.support.scenes import add_account
from tests.worker.support.stored import load

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALONE = ClaimLimits(lease_seconds=30, max_attempts=3)
TOGETHER = ClaimLimits(lease_seconds=30, max_attempts=3, max_audits=20, max_records=1_000)

Queue = Callable[..., list[str]]


@pytest.fixture
def queue(engine: Engine) -> Iterator[Queue]:
    """Queues audits of an account by name, a second apart; returns their IDs."""
    accounts: dict[str, str] = {}
    ages = iter(range(100_000))

    def add(name: str, count: int = 1, records: int = 10, source: str = "ingest") -> list[str]:
        with Session(engine) as session:
            if name not in accounts:
                account = add_account(session, email=f"{name}@turns.example")
                accounts[name] = account.id
            audits = [
                Audit(
                    account_id=accounts[name],
                    source=source,
                    blob_key="raw/x.jsonl",
                    records=records,
                    created_at=START + timedelta(seconds=next(ages)),
                )
                for _ in range(count)
            ]
            session.add_all(audits)
            session.commit()
            return [audit.id for audit in audits]

    yield add
    with engine.begin() as connection:
        connection.execute(delete(Account).where(Account.email.like("%@turns.example")))


def claim(engine: Engine, limits: ClaimLimits = ALONE, source: str = "ingest") -> list[str]:
    with engine.begin() as connection:
        return [claim.audit_id for claim in claim_next(connection, source, limits)]


def positions(engine: Engine, audit_ids: list[str]) -> list[int]:
    with Session(engine) as session:
        return [count_ahead(session, session.get_one(Audit, one)) for one in audit_ids]


def test_one_batch_does_not_wait_for_another_accounts_sixty(engine: Engine, queue: Queue) -> None:
    """The attack of the review: 60 batches of one account delayed another's by 91 s."""
    many = queue("many", 60)
    (one,) = queue("one")
    assert one in [claim(engine)[0] for _ in range(2)]
    assert [claim(engine)[0] for _ in range(3)] == many[1:4]


def test_an_account_that_was_served_goes_behind_the_others(engine: Engine, queue: Queue) -> None:
    queue("many", 20)
    served = []
    for _ in range(4):
        late = queue("late")
        served.append([claim(engine)[0] in late, claim(engine)[0] in late])
    # Each time, one of the two next claims is for the account with a single audit.
    assert [sum(pair) for pair in served] == [1, 1, 1, 1]


def test_two_busy_accounts_do_not_starve_a_third(engine: Engine, queue: Queue) -> None:
    (third,) = queue("third", 3)[-1:]
    served = list[str]()
    while third not in served and len(served) < 20:
        queue("a")
        queue("b")
        served += claim(engine)
    assert len(served) <= 9


def test_recalculations_wait_for_new_audits_of_their_account_and_delay_no_other(
    engine: Engine, queue: Queue
) -> None:
    old = queue("many", 30)
    with engine.begin() as connection:
        reported = update(Audit).where(Audit.id.in_(old))
        connection.execute(reported.values(frame_key="frames/x.parquet"))
    (new,) = queue("many")
    (other,) = queue("other")
    assert {claim(engine)[0], claim(engine)[0]} == {new, other}
    assert claim(engine) == old[:1]
    assert positions(engine, old[1:3]) == [0, 1]


def test_a_long_queue_is_claimed_several_at_once(engine: Engine, queue: Queue) -> None:
    audit_ids = queue("many", 200)
    assert claim(engine, TOGETHER) == audit_ids[:20]
    assert claim(engine, TOGETHER) == audit_ids[20:40]


def test_a_short_queue_is_left_to_other_workers(engine: Engine, queue: Queue) -> None:
    queue("many", 15)
    assert len(claim(engine, TOGETHER)) == 1


def test_all_accounts_are_in_what_is_claimed_at_once(engine: Engine, queue: Queue) -> None:
    queue("many", 200)
    others = [queue(name)[0] for name in ("a", "b", "c")]
    assert set(others) < set(claim(engine, TOGETHER)[:4])


def test_large_audits_are_claimed_alone(engine: Engine, queue: Queue) -> None:
    (large,) = queue("many", records=1_001)
    small = queue("many", 100)
    assert claim(engine, TOGETHER) == [large]
    assert claim(engine, TOGETHER) == small[:12]


def test_together_they_have_a_limited_number_of_records(engine: Engine, queue: Queue) -> None:
    audit_ids = queue("many", 100, records=300)
    assert claim(engine, TOGETHER) == audit_ids[:3]


def test_an_audit_whose_attempt_failed_is_claimed_alone(engine: Engine, queue: Queue) -> None:
    """It may end its process again, and should not end the attempts of others."""
    audit_ids = queue("many", 200)
    with engine.begin() as connection:
        suspect = update(Audit).where(Audit.id.in_((audit_ids[0], audit_ids[4])))
        connection.execute(suspect.values(attempts=1))
    assert claim(engine, TOGETHER) == audit_ids[:1]
    assert claim(engine, TOGETHER) == audit_ids[1:4]
    assert claim(engine, TOGETHER) == audit_ids[4:5]


def test_an_audit_without_attempts_left_holds_up_nobody(engine: Engine, queue: Queue) -> None:
    audit_ids = queue("many", 2)
    with engine.begin() as connection:
        connection.execute(update(Audit).where(Audit.id == audit_ids[0]).values(attempts=3))
    assert claim(engine) == audit_ids[1:]


def test_each_source_has_turns_of_its_own(engine: Engine, queue: Queue) -> None:
    (upload,) = queue("a", source="upload")
    (batch,) = queue("a")
    assert claim(engine, source="upload") == [upload]
    assert claim(engine) == [batch]
    assert claim(engine) == []


def test_positions_are_the_order_in_which_workers_claim(engine: Engine, queue: Queue) -> None:
    audit_ids = [*queue("a", 5), *queue("b", 2), *queue("a", 2), *queue("c"), *queue("b", 3)]
    claim(engine)
    waiting = [one for one in audit_ids if load(engine, one).status == "queued"]
    expected = sorted(waiting, key=lambda one: positions(engine, [one])[0])
    assert sorted(positions(engine, waiting)) == list(range(len(waiting)))
    first = positions(engine, expected[:1])
    assert first == [0]
    assert claim(engine) == expected[:1]
    assert claim(engine) == expected[1:2]


def test_an_audit_that_pauses_after_an_outage_has_a_position_too(
    engine: Engine, queue: Queue
) -> None:
    paused, ready = queue("a", 3), queue("b", 2)
    (batch,) = queue("c", source="upload")
    with engine.begin() as connection:
        later = datetime.now(UTC) + timedelta(minutes=1)
        own = update(Audit).where(Audit.id.in_(paused))
        connection.execute(own.values(outages=5, resume_at=later))
    assert positions(engine, [*ready, batch]) == [0, 2, 1]
    assert positions(engine, paused) == [0, 3, 5]
