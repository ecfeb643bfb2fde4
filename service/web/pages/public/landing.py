"""The landing page, the sign-in form and the page after account deletion."""

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from detectors.wording.names import introduce_detectors
from service.models.billing.payments import PROVIDERS
from service.models.identity.accounts import KEY_LIMITS
from service.reports.sample import get_sample_chart
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import current_config
from service.web.http.headers import keep_private
from service.web.pages.account.billing import shown_prices
from service.web.schemas.local_paths import find_local_path

blueprint = Blueprint("public", __name__)


@blueprint.get("/")
def landing() -> str:
    config = current_config()
    is_sold = any(getattr(config, f"{provider}_webhook_secret") for provider in PROVIDERS)
    return render_template(
        "pages/public/landing.html",
        prices=shown_prices(config),
        key_limits=KEY_LIMITS,
        is_sold=is_sold,
        sample_chart=get_sample_chart(),
        detectors=introduce_detectors().values(),
    )


@blueprint.get("/sign-in")
def sign_in() -> Response:
    config = current_config()
    page = render_template(
        "pages/public/sign_in.html",
        onward=find_local_path(request.args.get("next")),
        known=find_web_session(),
        outbox=config.local_outbox,
        owner_email=config.owner_email,
    )
    return keep_private(make_response(page))


@blueprint.get("/login")
@blueprint.get("/signin")
@blueprint.get("/signup")
def sign_in_by_another_name() -> BaseResponse:
    """Lead to the sign-in form from the addresses that people type."""
    return redirect(url_for("public.sign_in"), 303)


@blueprint.get("/deleted")
def deleted() -> str:
    """Confirm that the account was deleted."""
    return render_template("pages/public/deleted.html")
