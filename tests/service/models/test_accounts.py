"""What an account's subscription allows."""

from service.models import Account, Subscription
from service.models.identity.accounts import KEY_LIMITS
from tests.cases import each_case


@each_case(
    ("status", "plan"),
    [
        ("active", "team"),
        ("trialing", "team"),
        ("past_due", "team"),
        ("canceled", "free"),
        ("unpaid", "free"),
        ("Active", "free"),
        ("", "free"),
    ],
)
def test_a_plan_counts_while_its_subscription_is_active(status: str, plan: str) -> None:
    account = Account(email="a@example.org")
    account.subscriptions = [Subscription(plan="team", status=status, provider="comp")]
    assert account.plan == plan


def test_an_account_without_a_subscription_is_on_the_free_plan() -> None:
    assert Account(email="a@example.org").plan == "free"
    # Only paid plans have ingest keys.
    assert KEY_LIMITS == {"free": 0, "pro": 5, "team": 50}
