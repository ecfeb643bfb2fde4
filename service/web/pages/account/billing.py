"""/billing: an account's plan, credits and payments, and links to buy more."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from flask import g, redirect, render_template, request, url_for
from werkzeug import Response

from service.config import Config
from service.errors import NotFoundError
from service.models.billing.credits import count_credits
from service.models.billing.payments import Payment, list_payments
from service.models.identity.accounts import KEY_LIMITS, get_account
from service.models.operations.admin_actions import Via
from service.operations.admin.actions import grant_credits
from service.payments.links import payment_links
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, get_session
from service.web.schemas.local_paths import find_local_path

PROVIDER_NAMES: Final[Mapping[str, str]] = {
    "stripe": "Stripe",
    "paddle": "Paddle",
    "comp": "Gift",
}
_SHOWN_PAYMENTS: Final = 100
_PRODUCTS: Final = ("credit", "pro", "team")
_GRANTED_CREDITS: Final = 5

blueprint = PrivatePages("billing", __name__)


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
        links={
            product: payment_links(config, account_id, product=product) for product in _PRODUCTS
        },
        prices=shown_prices(config),
        granting=granting_for(config, account.email),
        provider_names=PROVIDER_NAMES,
    )


@blueprint.post("/billing/grant")
@require_visitor
def grant() -> Response:
    """Grant credits to the owner of a self-hosted installation."""
    email, session = current_caller().email, get_session()
    if not current_config().is_owner(email):
        raise NotFoundError
    grant_credits(session, email, _GRANTED_CREDITS, Via("web", g.request_id))
    session.commit()
    onward = find_local_path(request.form.get("next"))
    return redirect(onward or url_for("billing.billing"), 303)


class Granting(NamedTuple):
    """The ways to get credits in an installation that doesn't sell them."""

    is_owner: bool
    credits: int
    contact: str  # of the operator, who grants them to others


def granting_for(config: Config, email: str) -> Granting:
    return Granting(config.is_owner(email), _GRANTED_CREDITS, config.operator_contact)


def state_of(payment: Payment) -> str:
    if payment.refunded_at is not None:
        return "refunded"
    if payment.is_disputed:
        return "disputed"
    return "paid" if payment.paid_at is not None else "pending"


def shown_prices(config: Config) -> dict[str, str]:
    """Return the price to show for each product; empty if the settings have none."""
    return {product: getattr(config, f"{product}_price_shown") for product in _PRODUCTS}
