"""/billing: an account's plan, credits and payments, and links to buy more."""

from collections.abc import Mapping
from typing import Any, Final

from flask import Blueprint, render_template

from service.config import Config
from service.models.billing.credits import count_credits
from service.models.billing.payments import Payment, list_payments
from service.models.identity.accounts import KEY_LIMITS, get_account
from service.payments.links import payment_links
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private

PROVIDER_NAMES: Final[Mapping[str, str]] = {
    "stripe": "Stripe",
    "paddle": "Paddle",
    "comp": "Gift",
}
_SHOWN_PAYMENTS: Final = 100
_PRODUCTS: Final = ("credit", "pro", "team")

blueprint = Blueprint("billing", __name__)
blueprint.after_request(keep_private)


@blueprint.get("/billing")
@require_visitor
def billing() -> str:
    session, config, account_id = get_session(), current_config(), current_caller().account_id
    account = get_account(session, account_id)
    return render_template(
        "pages/account/billing.html",
        account=account,
        key_limits=KEY_LIMITS,
        credits=count_credits(session, account_id),
        payments=[
            (payment, state_of(payment))
            for payment in list_payments(session, account_id, _SHOWN_PAYMENTS)
        ],
        links=_links(config, account_id),
        prices=shown_prices(config),
        provider_names=PROVIDER_NAMES,
    )


def state_of(payment: Payment) -> str:
    if payment.refunded_at is not None:
        return "refunded"
    return "paid" if payment.paid_at is not None else "pending"


def shown_prices(config: Config) -> dict[str, str]:
    """Return the price to show for each product; empty if the settings have none."""
    return {product: getattr(config, f"{product}_price_shown") for product in _PRODUCTS}


def _links(config: Config, account_id: str) -> dict[str, Any]:
    return {product: payment_links(config, account_id, ware=product) for product in _PRODUCTS}
