"""POST /api/v1/plan-limits: how much of plans' windows is used, sent by `tallystick watch`."""

from typing import Any, Final

from service.models.calls.plan_limits import store_limits
from service.web.auth.callers import current_caller, limit_keys, require_key
from service.web.http.current import get_session
from service.web.openapi.blueprint import KEY_ERRORS, Blueprint
from service.web.schemas.plan_usage import PlanLimitsSchema, StoredLimitsSchema

_ERRORS: Final = {**KEY_ERRORS, 422: "A field is missing or invalid; the message names it."}

blueprint = Blueprint("plan_limits", __name__, description="Send used shares of plans.")


@blueprint.route("/plan-limits", methods=["POST"])
@require_key
@limit_keys
@blueprint.documented(operation="send_plan_limits", security="ingest_key", errors=_ERRORS)
@blueprint.arguments(PlanLimitsSchema, location="json")
@blueprint.response(200, StoredLimitsSchema, description="Stored.")
def store(body: dict[str, Any]) -> dict[str, Any]:
    """Store how much of a plan's windows is used."""
    session = get_session()
    store_limits(session, current_caller().account_id, body["limits"])
    session.commit()
    return {"limits": len(body["limits"])}
