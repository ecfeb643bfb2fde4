"""Payment events through the real web process: forged, repeated, interrupted, out of order."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import psutil
import pytest
import requests
from sqlalchemy import Connection, func, select, text
from sqlalchemy.orm import Session

from service.models import Credit, Payment, PaymentEvent, Subscription
from service.models.billing.payments import lock_payments
from tests.service.payments import paddle_events as paddle
from tests.service.payments import stripe_events as stripe
from tests.service.payments.forged_requests import forged_requests
from tests.service.payments.providers import PROVIDERS, SETTINGS, Provider, each_provider
from tests.service.support.scenes import add_account
from tests.worker.conftest import started_system
from tests.worker.support.promises import Note, in_full_only, scaled
from tests.worker.support.system import System
from tests.worker.support.waiting import kill, wait_until

YEAR = 365 * 86_400
Document = dict[str, Any]


@pytest.fixture(scope="module")
def web() -> Iterator[System]:
    """The web alone, with both providers configured."""
    settings = {name.upper(): value for name, value in SETTINGS.items()}
    with started_system(workers=0, sweepers=0, **settings) as system:
        yield system


@pytest.fixture
def account_id(web: System) -> str:
    with Session(web.engine) as session:
        account = add_account(session, email=f"{time.time_ns()}@example.org")
        session.commit()
        return account.id


def provider_of(document: Document) -> Provider:
    return PROVIDERS["event_id" in document]


def deliver(web: System, document: Document, *, at: float | None = None) -> int:
    provider = provider_of(document)
    body, headers = provider.signed(document, at=at)
    return post(web, provider, body, headers)


def post(web: System, provider: Provider, body: bytes, headers: dict[str, str]) -> int:
    # Read as latin-1 on the other side: a header need not be ASCII to arrive.
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    url = f"{web.base_url}{provider.path}"
    return requests.post(url, data=body, headers=raw, timeout=60).status_code


def count(web: System, table: type[Credit] | type[Payment], account_id: str) -> int:
    with Session(web.engine) as session:
        mine = select(func.count()).where(table.account_id == account_id)
        return session.scalar(mine) or 0


@in_full_only
def test_forged_and_outdated_events_are_rejected(
    web: System, account_id: str, share: float, note: Note
) -> None:
    """By default, `test_signatures.py` sends them to the application itself."""
    answers = [
        post(web, provider, body, headers)
        for provider in PROVIDERS
        for body, headers in forged_requests(provider, account_id).values()
    ]
    assert len(answers) == 40
    believed = sum(status != 400 for status in answers)
    for provider in PROVIDERS:
        for seconds in (-301, 301, YEAR, -YEAR):
            believed += answer_at(web, provider, account_id, seconds) != 400
    assert count(web, Credit, account_id) == 0
    for provider in PROVIDERS:
        for seconds in (-299, 299):
            believed += answer_at(web, provider, account_id, seconds) != 200
    assert count(web, Credit, account_id) == 4
    note("9 webhooks are authentic", 40 + 12, believed)


def answer_at(web: System, provider: Provider, account_id: str, seconds: float) -> int:
    """The answer to an event signed so far from now; tried again where sending took too long."""
    document = provider.paid(account_id)
    while True:
        now = int(time.time()) + (1 if seconds > 0 else 0)
        while time.time() < now:
            time.sleep(0.005)
        answer = deliver(web, document, at=now + seconds)
        if time.time() - now < 0.9:
            return answer


@in_full_only
@each_provider
def test_a_hundred_concurrent_copies_are_one_grant(
    web: System, account_id: str, provider: Provider, share: float, note: Note
) -> None:
    """By default, `test_webhooks.py` sends copies, and `test_at_once.py` related events at once."""
    document = provider.paid(account_id)
    with ThreadPoolExecutor(100) as pool:
        answers = Counter(pool.map(lambda _: deliver(web, document), range(100)))
    assert set(answers) <= {200, 503}
    assert answers[200] > 0
    assert deliver(web, document) == 200  # the provider retries after a 503
    granted, paid = count(web, Credit, account_id), count(web, Payment, account_id)
    note(f"10 paid once, 100 copies ({provider.name})", 100, abs(granted - 1) + abs(paid - 1))


@in_full_only
def test_a_handler_killed_midway_grants_nothing_and_a_redelivery_all(
    web: System, account_id: str, share: float, note: Note
) -> None:
    """By default, `test_webhooks.py` lets a handler fail midway."""
    holds = [hold_payments, hold_account]
    kills, losses = scaled(20, share), 0
    for number in range(kills):
        document = PROVIDERS[number % 2].paid(account_id)
        kill_midway(web, document, account_id, holds[number // 2 % 2])
        losses += count(web, Credit, account_id) != number
        losses += deliver(web, document) != 200
        losses += deliver(web, document) != 200
        losses += count(web, Credit, account_id) != number + 1
    note("10 paid once, handlers killed midway", kills, losses)


def hold_payments(connection: Connection, _account_id: str) -> None:
    """Stop a handler after it stores the event and before it applies the event."""
    lock_payments(Session(connection))


def hold_account(connection: Connection, account_id: str) -> None:
    """Stops a handler after the payment's row, at the credit, which refers to the account."""
    row = text("SELECT id FROM accounts WHERE id = :id FOR UPDATE")
    connection.execute(row, {"id": account_id})


def kill_midway(
    web: System, document: Document, account_id: str, hold: Callable[[Connection, str], None]
) -> None:
    with web.engine.connect() as holder, ThreadPoolExecutor(1) as pool:
        hold(holder, account_id)
        answer = pool.submit(pytest.raises, requests.ConnectionError, deliver, web, document)
        wait_until(lambda: is_somebody_waiting(web), 20)
        for child in psutil.Process(web.processes["web"].pid).children():
            kill(child.pid)
        answer.result()
        holder.rollback()
    wait_until(lambda: not is_somebody_waiting(web) and web.is_ready(), 30)
    with Session(web.engine) as session:
        event_id = document.get("event_id", document.get("id"))
        kept = select(PaymentEvent.id).where(PaymentEvent.event_id == event_id)
        assert session.scalar(kept) is None


def is_somebody_waiting(web: System) -> bool:
    with web.engine.connect() as connection:
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(connection.scalar(waiting))


def stripe_life(reference: str) -> list[Document]:
    """Four events of a subscription, two of them of one second."""
    steps = [
        ("created", "incomplete", 0),
        ("updated", "active", 0),
        ("updated", "past_due", 60),
        ("deleted", "canceled", 120),
    ]
    return [
        stripe.subscription(kind, status, reference=reference, created=stripe.START + second)
        for kind, status, second in steps
    ]


def stripe_return(reference: str) -> list[Document]:
    """Three events of one subscription, one of which identifies the payer; active at the end."""
    events = [
        stripe.subscription("created", "incomplete", reference=reference),
        stripe.subscription("updated", "past_due", reference=reference, created=stripe.START + 60),
        stripe.subscription(
            "updated", "active", reference=reference, plan="team", created=stripe.START + 120
        ),
    ]
    return [*events, stripe.checkout(mode="subscription", subscription=reference)]


def paddle_life(reference: str) -> list[Document]:
    steps = [("created", "trialing"), ("activated", "active"), ("paused", "paused")]
    events = [
        paddle.subscription(kind, status, reference=reference, minute=minute)
        for minute, (kind, status) in enumerate(steps)
    ]
    last = paddle.subscription("resumed", "active", reference=reference, plan="team", minute=9)
    return [*events, last]


@in_full_only
@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (stripe_life, ("canceled", "pro", "free")),
        (stripe_return, ("active", "team", "team")),
        (paddle_life, ("active", "team", "team")),
    ],
)
def test_every_order_of_four_events_with_duplicates_ends_alike(
    web: System,
    life: Callable[[str], list[Document]],
    expected: tuple[str, str, str],
    share: float,
    note: Note,
) -> None:
    """By default, `test_webhooks.py` has events of one second and out of order."""
    orders, ends = list(permutations(range(4)))[:: round(1 / share)], []
    for number, order in enumerate(orders):
        reference = f"{life.__name__}_{time.time_ns()}_{number}"
        events = own(web, life(reference), reference)
        ordered = [events[index] for index in order]
        for document in (ordered[index] for index in (0, 1, 0, 2, 1, 3, 2, 3)):
            assert deliver(web, document) == 200
        ends.append(end_of(web, reference))
    assert len(ends) == scaled(24, share)
    losses = len(ends) - ends.count(expected)
    note(f"11 order-proof subscriptions ({life.__name__})", len(ends), losses)


def own(web: System, events: list[Document], reference: str) -> list[Document]:
    """The events as they are when the subscription is an account's: by reference or address."""
    email = f"{reference}@example.org"
    with Session(web.engine) as session:
        account = add_account(session, email=email)
        account_id = account.id
        session.commit()
    customer = stripe.customer(f"cus_{reference}", email)
    for document in events:
        fields = document["data"].get("object", document["data"])
        if fields.get("object") == "checkout.session":
            fields["client_reference_id"] = account_id
        elif "custom_data" in fields:
            fields["custom_data"] = {"app_user_id": account_id}
    if "checkout.session.completed" not in [document.get("type") for document in events]:
        deliver(web, customer)
    return events


def end_of(web: System, reference: str) -> tuple[str, str | None, str]:
    with Session(web.engine) as session:
        found = select(Subscription).where(Subscription.reference == reference)
        subscription = session.scalars(found).one()
        assert subscription.account is not None
        return subscription.status, subscription.plan, subscription.account.plan
