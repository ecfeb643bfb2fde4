"""Report links: list them with a token, revoke them with a session. Tokens stay read-only."""

from datetime import timedelta
from typing import Any, Final

from service.errors import NotFoundError
from service.models.audits.audits import Cursor
from service.models.audits.report_links import (
    ReportLink,
    get_link,
    list_links,
    revoke_link,
)
from service.models.base import utc_now
from service.models.identity.security_events import EventKind
from service.web.auth.callers import (
    EMAIL_HEADER_DOCUMENT,
    credential_id,
    current_caller,
    require_login,
)
from service.web.auth.scopes import READ_AUDITS
from service.web.auth.security_events import record_event
from service.web.http.conditional import LIMIT_HEADERS
from service.web.http.current import current_config, get_session
from service.web.http.limits import limiter, per_minute
from service.web.http.paths import AUDIT_ID_DOCUMENT
from service.web.openapi.reading import NO_AUDIT, SESSION_ERRORS, ReadBlueprint
from service.web.schemas.cursors import make_cursor, page
from service.web.schemas.report_links import (
    ReportLinkListSchema,
    ReportLinkQuerySchema,
    ReportLinkSchema,
)

_REVOKE_ERRORS: Final = {**SESSION_ERRORS, 403: "The request came from another site."}

blueprint = ReadBlueprint("report_links", __name__, description="List and revoke report links.")


@blueprint.route("/report-links", methods=["GET"])
@blueprint.reads(
    READ_AUDITS,
    ReportLinkListSchema,
    operation="list_report_links",
    description="Without the links themselves.",
)
@blueprint.arguments(ReportLinkQuerySchema, location="query")
def list_all(query: dict[str, Any]) -> dict[str, Any]:
    """List your report links."""
    account_id, limit = current_caller().account_id, query["limit"]
    rows = list_links(get_session(), account_id, query.get("cursor"), limit + 1)
    found = [_describe(row.link) for row in rows]
    return page(
        "report_links",
        found,
        limit,
        lambda last: make_cursor(Cursor(last["issued_at"], last["audit_id"])),
    )


@blueprint.route("/report-links/<audit_id>", methods=["DELETE"], parameters=[AUDIT_ID_DOCUMENT])
@require_login
@limiter.limit(per_minute("read_limit_per_minute"), key_func=credential_id)
@blueprint.documented(
    operation="revoke_report_link",
    security="session",
    parameters=[EMAIL_HEADER_DOCUMENT],
    errors=_REVOKE_ERRORS,
    headers=LIMIT_HEADERS,
)
@blueprint.response(
    200, ReportLinkSchema, headers=LIMIT_HEADERS, description="Revoked. Repeating it is safe."
)
def revoke(audit_id: str) -> dict[str, Any]:
    """Revoke every link to an audit's report."""
    session, account_id = get_session(), current_caller().account_id
    if not revoke_link(session, account_id, audit_id):
        raise NotFoundError(NO_AUDIT)
    record_event(EventKind.LINK_REVOKED, account_id, audit_id=audit_id)
    session.commit()
    return _describe(get_link(session, audit_id))


def _describe(link: ReportLink) -> dict[str, Any]:
    days = timedelta(days=current_config().report_link_days)
    times = {"revoked_at": link.revoked_at, "last_opened_at": link.last_opened_at}
    return {
        "audit_id": link.audit_id,
        "state": link.state(utc_now() - days),
        "issued_at": link.issued_at,
        "expires_at": link.issued_at + days,
        "opens": link.opens,
        **{name: moment for name, moment in times.items() if moment is not None},
    }
