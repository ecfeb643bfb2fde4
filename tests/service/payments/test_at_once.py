"""Related events that arrive at the same time find each other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.models import Account, Payment
from service.models.billing.credits import count_free_credits
from service.models.identity.sign_in import open_account
from service.payments import adopt_payments
from service.payments.events import CustomerUpdated, Payer, PaymentUpdated
from tests.service.payments.test_adoption import paid, subscribed, tell
from tests.service.support.scenes import Sessions, add_account
from tests.worker.support.promises import at_a_quarter, scaled

ROUNDS = 20  # a quarter of them by default


def at_once(sessions: Sessions, *acts: Callable[[Session], object]) -> None:
    """Each act in a thread and a transaction of its own, all begun together."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[Session], object]) -> None:
        with sessions() as session:
            session.connection()
            barrier.wait(60)
            act(session)
            session.commit()

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(run, acts))


def sign_in(session: Session, email: str) -> None:
    adopt_payments(session, open_account(session, email))


@at_a_quarter
def test_a_payment_and_its_payers_first_sign_in(own_sessions: Sessions, share: float) -> None:
    for number in range(scaled(ROUNDS, share)):
        email, reference = f"{number}@example.org", f"pi_{number}"
        at_once(
            own_sessions,
            partial(tell, change=paid(reference, email=email), minute=number),
            partial(sign_in, email=email),
            partial(sign_in, email=email),
        )
        with own_sessions() as session:
            account = session.scalars(select(Account).where(Account.email == email)).one()
            assert count_free_credits(session, account.id) == 1


@at_a_quarter
def test_a_checkout_its_subscription_and_its_customer(own_sessions: Sessions, share: float) -> None:
    with own_sessions() as session:
        account = add_account(session, email="payer@example.org")
        account_id = account.id
        session.commit()
    for number in range(scaled(ROUNDS, share)):
        reference = f"sub_{number}"
        checkout = PaymentUpdated(
            reference=reference, kind="subscription", payer=Payer(account_id=account_id)
        )
        at_once(
            own_sessions,
            partial(tell, change=checkout, minute=number),
            partial(tell, change=subscribed(reference), minute=number),
        )
    with own_sessions() as session:
        assert len(session.get_one(Account, account_id).subscriptions) == scaled(ROUNDS, share)


@at_a_quarter
def test_a_payment_and_the_address_of_its_customer(own_sessions: Sessions, share: float) -> None:
    with own_sessions() as session:
        session.add(Account(email="payer@example.org"))
        session.commit()
    for number in range(scaled(ROUNDS, share)):
        customer = f"cus_{number}"
        reported = CustomerUpdated(
            payer=Payer(customer_reference=customer, email="payer@example.org")
        )
        payment = paid(f"pi_{number}", customer_reference=customer)
        at_once(
            own_sessions,
            partial(tell, change=reported, minute=number),
            partial(tell, change=payment, minute=number),
        )
    with own_sessions() as session:
        assert all(session.scalars(select(Payment.account_id)))
        assert len(session.scalars(select(Payment.id)).all()) == scaled(ROUNDS, share)
