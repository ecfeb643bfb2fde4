"""POST /api/v1/plan-limits: how much of plans' windows is used, sent by `tallystick watch`."""

from typing import Any, Final

from service.models.calls.plan_limits import store_limits
from service.web.auth.callers import credential_id, current_caller, require_key
from service.web.http.bodies import small_body
from service.web.http.current import get_session
from service.web.http.limits import client_address, limiter, per_minute
from service.web.openapi.blueprint import Blueprint
from service.web.schemas.plan_usage import PlanLimitsSchema, StoredLimitsSchema

_ERRORS: Final = {
    400: "The body isn't valid JSON.",
    401: "The ingest key is missing, invalid, expired or revoked.",
    403: "The request came from another site.",
    413: "The body is too large.",
    415: "The content type isn't application/json.",
    422: "A field is missing or invalid; the message names it.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}

blueprint = Blueprint("plan_limits", __name__, description="Send used shares of plans.")


@blueprint.route("/plan-limits", methods=["POST"])
@require_key
@limiter.shared_limit(
    per_minute("ingest_key_limit_per_minute"), "ingest key", key_func=credential_id
)
@limiter.shared_limit(
    per_minute("ingest_ip_limit_per_minute"), "ingest address", key_func=client_address
)
@small_body
@blueprint.documented(operation="send_plan_limits", security="ingest_key", errors=_ERRORS)
@blueprint.arguments(PlanLimitsSchema, location="json")
@blueprint.response(200, StoredLimitsSchema, description="Stored.")
def store(body: dict[str, Any]) -> dict[str, Any]:
    """Store how much of a plan's windows is used."""
    session = get_session()
    store_limits(session, current_caller().account_id, body["limits"])
    session.commit()
    return {"limits": len(body["limits"])}
