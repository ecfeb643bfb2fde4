"""/admin: queues, audits, payments and admin actions. Hidden without the admin token."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from flask import Request, Response, g, make_response, render_template, request
from marshmallow import Schema

from service.errors import BadRequestError, InvalidRequestError
from service.models.operations.admin_actions import Via
from service.operations.admin.actions import (
    export_early_access,
    get_any_account,
    get_any_pdf,
    mark_purged,
    queue_rerun,
    record_payment,
    sign_out,
)
from service.operations.admin.overview import load_overview, write_early_access
from service.payments import ManualPayment
from service.web.auth.admin_gate import require_admin
from service.web.http.bodies import FORM_TYPES, SMALL_BYTES, read_body
from service.web.http.current import current_blobs, current_config, current_queues, get_session
from service.web.http.error_responses import storage_needed, wants_page
from service.web.http.json_fields import decode_fields
from service.web.http.paths import (
    ACCOUNT_ID_DOCUMENT,
    AUDIT_ID_DOCUMENT,
)
from service.web.openapi.blueprint import JSON_OR_PAGE, Blueprint, BodyParser
from service.web.schemas.admin import (
    MarkedPaidSchema,
    MarkPaidSchema,
    OverviewSchema,
    PagesSchema,
    PurgedSchema,
    RerunSchema,
    SignedOutSchema,
)

_ERRORS: Final = {
    403: "In a browser: you haven't signed in with an administrator's passkey.",
    404: "Not found, or the admin token is missing.",
    422: "The request is invalid; the message says what was expected.",
    503: "The service is busy or restarting, or storage is unavailable.",
}
_FORM_ERRORS: Final = {
    **_ERRORS,
    403: "The CSRF token is missing or invalid, or you haven't signed in with an administrator's"
    " passkey.",
    413: "The body is too large.",
}


class ActionParser(BodyParser):
    """Add the location `action`: a JSON object, or the form of the admin page."""

    def load_action(self, request: Request, schema: Any) -> Any:
        if request.mimetype in FORM_TYPES:  # already read to check its CSRF token
            # A form has its CSRF token as well, and empty fields.
            return {
                name: value
                for name, value in request.form.items()
                if value and name in schema.fields
            }
        try:
            fields = decode_fields(read_body(SMALL_BYTES), schema)
        except BadRequestError:
            fields = None
        if fields is None:
            names = ", ".join(MarkPaidSchema().fields)
            raise InvalidRequestError(f"Send a JSON object with these fields: {names}.")
        return fields

    __location_map__ = {**BodyParser.__location_map__, "action": "load_action"}


class AdminBlueprint(Blueprint):
    ARGUMENTS_PARSER = ActionParser()
    DEFAULT_LOCATION_CONTENT_TYPE_MAPPING = {
        **Blueprint.DEFAULT_LOCATION_CONTENT_TYPE_MAPPING,
        "action": "application/json",
    }


blueprint = AdminBlueprint("admin", __name__, url_prefix="/admin", description="Admin.")


def _admin_endpoint(
    operation: str, errors: Mapping[int, str] = _ERRORS
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Require the admin token, and document the route."""
    documented = blueprint.documented(
        operation=operation, security="admin_token", errors=errors, media_type=JSON_OR_PAGE
    )
    return lambda view: require_admin(documented(view))


@blueprint.after_request  # type: ignore[untyped-decorator]
def _keep_private(response: Response) -> Response:
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


@blueprint.route("", methods=["GET"])
@_admin_endpoint("show_overview")
@blueprint.arguments(PagesSchema, location="query")
@blueprint.page_too()
@blueprint.response(200, OverviewSchema, description="A page, or JSON if requested.")
def home(pages: dict[str, int]) -> Any:
    """Show queues, audits, accounts, payments and admin actions."""
    overview = load_overview(get_session(), current_queues(), pages)
    if request.accept_mimetypes.best_match(("text/html", "application/json")) == "application/json":
        return overview
    return make_response(render_template("pages/admin/overview.html", **overview, pages=pages))


@blueprint.route("/audits/<audit_id>/purge", methods=["POST"], parameters=[AUDIT_ID_DOCUMENT])
@_admin_endpoint("purge_raw_upload", _FORM_ERRORS)
@blueprint.page_too()
@blueprint.response(200, PurgedSchema, description="The raw upload was deleted.")
def purge(audit_id: str) -> Any:
    """Delete an audit's raw upload and keep its report."""
    audit, is_new = mark_purged(get_session(), audit_id, _via())
    get_session().commit()
    with storage_needed():
        current_blobs().delete(audit.blob_key)
    done = {"audit_id": audit.id, "raw_purged_at": audit.raw_purged_at, "is_repeat": not is_new}
    return _done(PurgedSchema(), done, "The raw upload was deleted.")


@blueprint.route("/audits/<audit_id>/rerun", methods=["POST"], parameters=[AUDIT_ID_DOCUMENT])
@_admin_endpoint("rerun_audit", _FORM_ERRORS)
@blueprint.page_too()
@blueprint.response(200, RerunSchema, description="The audit was queued again.")
def rerun(audit_id: str) -> Any:
    """Rerun an audit from its raw upload or, if that was deleted, from its stored records."""
    session = get_session()
    with storage_needed():
        audit = queue_rerun(session, current_blobs(), audit_id, _via())
    session.commit()
    current_queues().enqueue_audit(audit.id, audit.source, audit.attempts + 1)
    done = {"audit_id": audit.id, "status": audit.status}
    return _done(RerunSchema(), done, "The audit was queued again.")


@blueprint.route("/audits/<audit_id>/report", methods=["GET"], parameters=[AUDIT_ID_DOCUMENT])
@_admin_endpoint("get_any_report")
@blueprint.response(
    200,
    {"type": "string", "format": "binary"},
    content_type="application/pdf",
    description="The report as PDF.",
)
def report(audit_id: str) -> Response:
    """Download an audit's report as PDF without creating a link."""
    with storage_needed():
        rules_url = current_config().rules_url
        content = get_any_pdf(get_session(), current_blobs(), audit_id, _via(), rules_url=rules_url)
    get_session().commit()
    headers = {"Content-Disposition": 'attachment; filename="tallystick-report.pdf"'}
    return Response(content, mimetype="application/pdf", headers=headers)


@blueprint.route(
    "/accounts/<account_id>/sign-out", methods=["POST"], parameters=[ACCOUNT_ID_DOCUMENT]
)
@_admin_endpoint("end_sessions", _FORM_ERRORS)
@blueprint.page_too()
@blueprint.response(200, SignedOutSchema, description="All sessions of the account ended.")
def end_sessions(account_id: str) -> Any:
    """Sign an account out in every browser."""
    session = get_session()
    account = get_any_account(session, account_id)
    ended = sign_out(session, account, _via())
    session.commit()
    done = {"account_id": account.id, "sessions": ended}
    return _done(SignedOutSchema(), done, "The account is signed out in every browser.")


@blueprint.route("/payments/mark-paid", methods=["POST"])
@_admin_endpoint("mark_paid", _FORM_ERRORS)
@blueprint.arguments(MarkPaidSchema, location="action")
@blueprint.page_too()
@blueprint.response(
    200, MarkedPaidSchema, description="Granted; `is_repeat` marks a repeated request."
)
def mark_paid(manual: ManualPayment) -> Any:
    """Grant a credit or plan that was paid for elsewhere or is free."""
    payment, is_new = record_payment(get_session(), manual, _via())
    get_session().commit()
    done = {
        "payment_id": payment.id,
        "account_id": payment.account_id,
        "is_repeat": not is_new,
    }
    words = "Payment recorded." if is_new else "This payment was already recorded."
    return _done(MarkedPaidSchema(), done, words)


@blueprint.route("/early-access.csv", methods=["GET"])
@_admin_endpoint("list_early_access")
@blueprint.response(
    200, {"type": "string"}, content_type="text/csv", description="The early access signups."
)
def early_access() -> Response:
    """Export the early access signups."""
    rows = export_early_access(get_session(), _via())
    get_session().commit()
    table = write_early_access(rows)
    headers = {"Content-Disposition": 'attachment; filename="early-access.csv"'}
    return Response(table, mimetype="text/csv", headers=headers)


def _via() -> Via:
    return Via("web", g.request_id, g.get("admin_email"))


def _done(schema: Schema, fields: Mapping[str, Any], words: str) -> Any:
    """Return the result as JSON, or as a page for the forms of the admin page."""
    if not wants_page():
        return fields
    shown = {name: value for name, value in schema.dump(fields).items() if value is not None}
    return make_response(render_template("pages/admin/done.html", words=words, fields=shown))
