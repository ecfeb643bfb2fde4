"""POST /api/v1/early-access: sign up for early access with an email address."""

from typing import Final

from service.models.identity.early_access import add_early_access
from service.web.auth.callers import limit_by_caller
from service.web.http.bodies import small_body
from service.web.http.current import get_session
from service.web.http.limits import limiter, per_minute
from service.web.openapi.blueprint import Blueprint
from service.web.schemas.sign_in import EarlyAccessSchema, MessageSchema

_ERRORS: Final = {
    400: "The body isn't valid JSON.",
    403: "The request came from another site.",
    413: "The body is too large.",
    415: "The content type isn't application/json.",
    422: "Invalid email address.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}

blueprint = Blueprint("early_access", __name__, description="Sign up for early access.")


@blueprint.route("/early-access", methods=["POST"])
@limiter.limit(per_minute("magic_link_limit_per_minute"), key_func=limit_by_caller)
@small_body
@blueprint.documented(operation="ask_for_early_access", errors=_ERRORS)
@blueprint.arguments(EarlyAccessSchema, location="json")
@blueprint.response(200, MessageSchema, description="The same response if you already signed up.")
def ask(asked: dict[str, str]) -> dict[str, str]:
    """Sign up for early access."""
    add_early_access(get_session(), asked["email"])
    get_session().commit()
    return {"message": "Thanks for signing up. We'll email you when your account is ready."}
