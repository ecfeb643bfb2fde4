"""Payment events result in credits, refunds and subscriptions, and are stored."""

import io
from decimal import Decimal
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.models import Account, Audit, Credit, Payment, PaymentEvent, Subscription
from service.models.billing.credits import claim_credit, count_free_credits
from service.payments import adopt_payments, recording
from tests.cases import each_case
from tests.service.payments import paddle_events as paddle
from tests.service.payments import stripe_events as stripe
from tests.service.payments.conftest import Deliver
from tests.service.payments.providers import Provider, each_provider
from tests.service.payments.test_adoption import sign_up
from tests.service.support.scenes import INGEST, Tenant, batch, error_of

MINUTE = 60


@pytest.fixture
def account(db_session: Session) -> Account:
    account = sign_up(db_session)
    db_session.commit()
    return account


def reload(session: Session, account: Account) -> Account:
    session.expire_all()
    return session.get_one(Account, account.id)


def test_the_log_names_events_and_nothing_of_what_they_say(
    client: FlaskClient, deliver: Deliver, log: io.StringIO
) -> None:
    document = stripe.checkout(email="canary@example.org")
    deliver(document)
    body, headers = stripe.signed(document, secret="another")
    assert client.post(stripe.PATH, data=body, headers=headers).status_code == 400
    unreadable = stripe.checkout(email="canary@example.org", mode=7)
    body, headers = stripe.signed(unreadable)
    assert client.post(stripe.PATH, data=body, headers=headers).status_code == 422
    lines = log.getvalue()
    for event in ("webhook_received", "webhook_refused", "webhook_unreadable"):
        assert event in lines
    assert document["id"] in lines
    for secret in ("canary", stripe.SECRET, headers["Stripe-Signature"][-64:]):
        assert secret not in lines


@each_provider
def test_an_event_is_kept_as_it_came_and_a_replay_does_nothing(
    deliver: Deliver, db_session: Session, account: Account, provider: Provider
) -> None:
    document = provider.paid(account.id)
    for _ in range(3):
        deliver(document)
    event_id = document.get("event_id") or document["id"]
    kept = select(PaymentEvent).where(PaymentEvent.event_id == event_id)
    event = db_session.scalars(kept).one()
    assert event.payload == document
    assert event.provider == provider.name
    assert count_free_credits(db_session, account.id) == 1


def test_an_event_that_fails_midway_grants_nothing_and_is_granted_when_it_comes_again(
    client: FlaskClient, db_session: Session, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, headers = stripe.signed(stripe.checkout(client_reference_id=account.id))
    apply = recording._apply

    def fail(*arguments: Any) -> None:
        apply(*arguments)
        raise OperationalError("", {}, Exception())

    with monkeypatch.context() as patch:
        patch.setattr(recording, "_apply", fail)
        error_of(client.post(stripe.PATH, data=body, headers=headers), 503, "unavailable")
    assert count_free_credits(db_session, account.id) == 0
    assert client.post(stripe.PATH, data=body, headers=headers).status_code == 200
    assert count_free_credits(db_session, account.id) == 1


def test_the_same_id_at_another_provider_is_another_event(
    deliver: Deliver, db_session: Session
) -> None:
    deliver(stripe.event("account.updated", {}, id="evt_1"))
    deliver(paddle.customer("ctm_1", "a@example.org") | {"event_id": "evt_1"})
    assert db_session.scalar(select(func.count()).select_from(PaymentEvent)) == 2


def test_an_event_of_an_unknown_type_is_kept_and_does_nothing(
    deliver: Deliver, db_session: Session
) -> None:
    unknown: list[dict[str, object]] = [
        stripe.event("invoice.paid", {"id": "in_1"}),
        stripe.event("v1.something.new", {}),
        {
            "id": "evt_2",
            "object": "v2.core.event",
            "type": "v2.x",
            "created": "2026-03-01T09:00:00Z",
        },
        paddle.customer("ctm_1", "a@example.org") | {"event_type": "something.new"},
        {
            "event_id": "evt_3",
            "event_type": "report.created",
            "occurred_at": "2026-03-01T09:00:00.123456Z",
            "data": {"id": "rep_1", "note": "a\0b"},
        },
    ]
    for document in unknown:
        deliver(document)
    assert db_session.scalar(select(func.count()).select_from(PaymentEvent)) == len(unknown)
    for table in (Payment, Subscription):
        assert db_session.scalar(select(func.count()).select_from(table)) == 0


def test_a_known_event_of_another_shape_is_rejected_so_that_it_comes_again(
    client: FlaskClient, db_session: Session
) -> None:
    document = stripe.checkout()
    document["data"]["object"]["payment_status"] = 7
    body, headers = stripe.signed(document)
    error_of(client.post(stripe.PATH, data=body, headers=headers), 422, "validation_error")
    assert db_session.scalar(select(func.count()).select_from(PaymentEvent)) == 0


@each_case("minor", [10**18, -(10**18), 10**40])
def test_an_amount_that_none_can_be_is_rejected_and_grants_nothing(
    client: FlaskClient, db_session: Session, minor: int
) -> None:
    body, headers = stripe.signed(stripe.checkout(amount_total=minor))
    error_of(client.post(stripe.PATH, data=body, headers=headers), 422, "validation_error")
    document = paddle.transaction()
    document["data"]["details"]["totals"]["grand_total"] = f"{abs(minor)}" + "0" * 5_000
    body, headers = paddle.signed(document)
    error_of(client.post(paddle.PATH, data=body, headers=headers), 422, "validation_error")
    assert db_session.scalar(select(func.count()).select_from(Payment)) == 0


@each_provider
def test_a_payment_says_how_much_was_paid_for_what(
    deliver: Deliver, db_session: Session, account: Account, provider: Provider
) -> None:
    deliver(provider.paid(account.id))
    payment = db_session.scalars(select(Payment)).one()
    assert (payment.amount, payment.currency, payment.kind) == (Decimal(49), "USD", "credit")
    assert payment.account_id == account.id


def test_amounts_are_in_whole_units_of_their_currency(
    deliver: Deliver, db_session: Session
) -> None:
    for currency, whole in (("JPY", "4900"), ("KWD", "4.9"), ("EUR", "49")):
        deliver(stripe.checkout(amount_total=4900, currency=currency.lower()))
        paid = select(Payment.amount).where(Payment.currency == currency)
        assert db_session.scalar(paid) == Decimal(whole)


@pytest.mark.parametrize(
    ("kind", "credits"), [("async_payment_succeeded", 1), ("async_payment_failed", 0)]
)
@pytest.mark.parametrize("is_in_order", [True, False])
def test_a_slow_payment_grants_when_it_succeeded_and_not_before(
    deliver: Deliver,
    db_session: Session,
    account: Account,
    kind: str,
    credits: int,
    is_in_order: bool,
) -> None:
    fields: dict[str, Any] = {
        "client_reference_id": account.id,
        "id": "cs_1",
        "payment_intent": "pi_1",
    }
    begun = stripe.checkout(payment_status="unpaid", **fields)
    status = "paid" if credits else "unpaid"
    ended = stripe.checkout(kind, payment_status=status, **fields)
    events = [begun, ended] if is_in_order else [ended, begun]
    deliver(events[0])
    if is_in_order:
        assert count_free_credits(db_session, account.id) == 0
    deliver(events[1])
    assert count_free_credits(db_session, account.id) == credits


def test_a_transaction_that_is_paid_and_then_completed_is_one_credit(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    fields: dict[str, Any] = {"id": "txn_1", "custom_data": {"app_user_id": account.id}}
    for minute, kind in enumerate(("paid", "completed")):
        deliver(paddle.transaction(kind, minute=minute, **fields))
    assert count_free_credits(db_session, account.id) == 1
    # A failed transaction grants nothing.
    fields |= {"id": "txn_2", "status": "ready"}
    for kind in ("payment_failed", "created", "ready", "past_due", "canceled"):
        deliver(paddle.transaction(kind, **fields))
    assert count_free_credits(db_session, account.id) == 1


def test_custom_data_that_is_not_ours_is_passed_over(deliver: Deliver, db_session: Session) -> None:
    for custom_data in ({"account_id": True}, ["a list"], {}, None):
        deliver(paddle.transaction(custom_data=custom_data))
    assert set(db_session.scalars(select(Payment.account_id))) == {None}


@pytest.mark.parametrize("is_paid_first", [True, False])
def test_a_full_refund_revokes_the_credit_in_any_order_of_events(
    deliver: Deliver, db_session: Session, account: Account, is_paid_first: bool
) -> None:
    pairs = [
        [
            stripe.checkout(client_reference_id=account.id, payment_intent="pi_1"),
            stripe.refund("pi_1", created=stripe.START + MINUTE),
        ],
        [
            paddle.transaction(id="txn_1", custom_data={"app_user_id": account.id}),
            paddle.refund("txn_1"),
        ],
    ]
    for pair in pairs:
        for document in pair if is_paid_first else reversed(pair):
            deliver(document)
        assert count_free_credits(db_session, account.id) == 0


def test_what_is_no_full_refund_yet_takes_nothing_back(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    deliver(stripe.checkout(client_reference_id=account.id, payment_intent="pi_1"))
    deliver(stripe.refund("pi_1", refunded=False))
    deliver(paddle.transaction(id="txn_1", custom_data={"app_user_id": account.id}))
    unlike: list[dict[str, Any]] = [
        {"type": "partial"},
        {"type": None},
        {"status": "pending_approval"},
        {"status": "rejected"},
        {"action": "credit"},
    ]
    for fields in unlike:
        deliver(paddle.refund("txn_1", **fields))
    assert count_free_credits(db_session, account.id) == 2


def test_a_refund_of_a_credit_that_an_audit_has_changes_nothing_for_the_audit(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    deliver(stripe.checkout(client_reference_id=account.id, payment_intent="pi_1"))
    audit = Audit(account_id=account.id, source="upload", blob_key="raw/x.jsonl")
    db_session.add(audit)
    db_session.flush()
    claim_credit(db_session, account.id, audit.id)
    db_session.commit()
    deliver(stripe.refund("pi_1"))
    credit = db_session.scalars(select(Credit)).one()
    assert (credit.audit_id, credit.revoked_at) == (audit.id, None)


def test_a_payment_of_an_unknown_address_is_granted_once_to_its_payer(
    deliver: Deliver, db_session: Session
) -> None:
    deliver(stripe.checkout(email="Payer@Example.org"))
    deliver(paddle.transaction(customer_id="ctm_1"))
    deliver(paddle.customer("ctm_1", "payer@example.ORG"))
    assert count_free_credits(db_session, sign_up(db_session, "other@example.org").id) == 0
    payer = sign_up(db_session, "payer@example.org")
    adopt_payments(db_session, payer)
    assert count_free_credits(db_session, payer.id) == 2


def test_a_subscription_gives_its_plan_while_it_is_active(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    deliver(stripe.customer("cus_sub_1", account.email))
    active = ("active", "trialing", "past_due")
    ended = ("unpaid", "incomplete", "incomplete_expired", "paused", "canceled")
    for minute, status in enumerate((*active, *ended, "active")):
        created = stripe.START + minute * MINUTE
        deliver(stripe.subscription("updated", status, created=created))
        assert reload(db_session, account).plan == ("pro" if status in active else "free"), status
    deliver(stripe.subscription("deleted", "canceled", created=created + MINUTE))
    changes = ("created", "activated", "past_due", "paused", "resumed", "canceled")
    statuses = ("trialing", "active", "past_due", "paused", "active", "canceled")
    for minute, (kind, status) in enumerate(zip(changes, statuses, strict=True)):
        owner: dict[str, Any] = {"custom_data": {"app_user_id": account.id}}
        deliver(paddle.subscription(kind, status, plan="team", minute=minute, **owner))
        assert reload(db_session, account).plan == ("team" if status in active else "free"), kind


def test_a_change_of_plan_counts_from_its_event_on(
    deliver: Deliver, db_session: Session, account: Account, log: io.StringIO
) -> None:
    deliver(
        stripe.checkout(
            client_reference_id=account.id,
            mode="subscription",
            subscription="sub_1",
            payment_intent=None,
        )
    )
    for minute, (plan, expected) in enumerate(
        [("pro", "pro"), ("team", "team"), ("price_of_a_mug", "free"), ("pro", "pro")]
    ):
        created = stripe.START + minute * MINUTE
        deliver(stripe.subscription("updated", "active", plan=plan, created=created))
        assert reload(db_session, account).plan == expected
    assert count_free_credits(db_session, account.id) == 0
    assert log.getvalue().count("price_unknown") == 1


def test_events_of_one_second_end_as_a_subscription_goes(
    deliver: Deliver, db_session: Session, account: Account
) -> None:
    deliver(stripe.customer("cus_sub_1", account.email))
    deliver(stripe.subscription("updated", "active"))
    deliver(stripe.subscription("created", "incomplete"))
    deliver(stripe.subscription("updated", "incomplete"))
    assert reload(db_session, account).plan == "pro"
    deliver(stripe.subscription("deleted", "canceled"))
    deliver(stripe.subscription("updated", "active"))
    assert reload(db_session, account).plan == "free"


@each_provider
def test_ingest_pauses_while_the_subscription_has_lapsed_and_resumes(
    client: FlaskClient, deliver: Deliver, db_session: Session, tenant: Tenant, provider: Provider
) -> None:
    db_session.query(Subscription).delete()  # what the tenant was given
    db_session.commit()
    mine: dict[str, Any] = {"custom_data": {"app_user_id": tenant.account_id}}
    deliver(
        stripe.checkout(
            client_reference_id=tenant.account_id, mode="subscription", subscription="sub_1"
        )
    )
    for minute, (status, kind, expected) in enumerate(
        [
            ("active", "created", 201),
            ("past_due", "past_due", 201),
            ("paused", "paused", 402),
            ("active", "resumed", 201),
            ("canceled", "canceled", 402),
        ]
    ):
        if provider.name == "stripe":
            at = stripe.START + minute * MINUTE
            change = {"past_due": "updated", "canceled": "deleted"}.get(kind, kind)
            deliver(stripe.subscription(change, status, created=at))
        else:
            deliver(paddle.subscription(kind, status, minute=minute, **mine))
        response = client.post(INGEST, json=batch(), headers=tenant.writes)
        assert response.status_code == expected, (kind, response.get_data(as_text=True))
