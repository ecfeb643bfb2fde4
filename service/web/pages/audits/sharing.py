"""/settings/report-links: the report links of an account, to create, revoke and renew.

A link may outlast a session by weeks. So the only pages with a link are the answers to Share and
Renew, which need a recent sign-in.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.core.tokens import sign_report
from service.errors import NotFoundError
from service.models.audits.audits import find_audit
from service.models.audits.report_links import (
    SHOWN_LINKS,
    ReportLink,
    find_link,
    issue_link,
    list_links,
    renew_link,
    revoke_all_links,
    revoke_link,
)
from service.models.base import utc_now
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, get_session
from service.web.pages.tables import Column, read_tables

_NO_AUDIT: Final = "Audit not found."

blueprint = PrivatePages("sharing", __name__, url_prefix="/settings/report-links")


class Row(NamedTuple):
    """A line of the list."""

    link: ReportLink
    created_at: datetime
    source: str
    expires_at: datetime
    state: str


_COLUMNS: Final = (
    Column("report", "Report", is_time=True),
    Column("state", "Status"),
    Column("expires", "Expires", is_time=True),
    Column("opens", "Opened", is_number=True),
    Column("opened", "Last opened", is_time=True),
    Column("change", "Change", is_sortable=False),
)
_KEYS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "report": lambda row: row.created_at,
    "state": lambda row: row.state,
    "expires": lambda row: None if row.state == "revoked" else row.expires_at,
    "opens": lambda row: row.link.opens,
    "opened": lambda row: row.link.last_opened_at,
}


@blueprint.get("")
@require_visitor
def home() -> str:
    days, now = timedelta(days=current_config().report_link_days), utc_now()
    rows = [
        Row(link, created_at, source, link.issued_at + days, link.state(now - days))
        for link, created_at, source in list_links(get_session(), current_caller().account_id)
    ]
    path = url_for("sharing.home")
    table = read_tables(request.args, {"links": _COLUMNS}, path=path, parameters={})["links"]
    return render_template(
        "pages/audits/report_links.html",
        table=table,
        rows=table.arrange(rows, _KEYS),
        is_cut=len(rows) == SHOWN_LINKS,
    )


@blueprint.post("/<audit_id>/share")
@require_visitor
@require_recent_sign_in("audit_pages.show", anchor="share")
def share(audit_id: str) -> str:
    """Issue a link and show it; earlier ones work on, unless they are revoked."""
    session, account_id = get_session(), current_caller().account_id
    if find_audit(session, account_id, audit_id) is None:
        raise NotFoundError(_NO_AUDIT)
    link = find_link(session, audit_id)
    if link is not None and link.revoked_at is not None:
        renew_link(session, account_id, audit_id)
    return _show(audit_id, EventKind.LINK_CREATED)


@blueprint.post("/<audit_id>/renew")
@require_visitor
@require_recent_sign_in("sharing.home")
def renew(audit_id: str) -> str:
    """Issue a new link and show it; every earlier link to this report stops working."""
    if not renew_link(get_session(), current_caller().account_id, audit_id):
        raise NotFoundError(_NO_AUDIT)
    return _show(audit_id, EventKind.LINK_RENEWED)


@blueprint.post("/<audit_id>/revoke")
@require_visitor
def revoke(audit_id: str) -> Response:
    """Let every link to this report stop working."""
    account_id = current_caller().account_id
    if not revoke_link(get_session(), account_id, audit_id):
        raise NotFoundError(_NO_AUDIT)
    record_event(EventKind.LINK_REVOKED, account_id, audit_id=audit_id)
    get_session().commit()
    if request.form.get("back") == "audit":
        return redirect(url_for("audit_pages.show", audit_id=audit_id, _anchor="share"), 303)
    return redirect(url_for("sharing.home"), 303)


@blueprint.post("/revoke-all")
@require_visitor
def revoke_all() -> Response:
    account_id = current_caller().account_id
    count = revoke_all_links(get_session(), account_id)
    record_event(EventKind.LINK_REVOKED, account_id, count=count)
    get_session().commit()
    return redirect(url_for("sharing.home"), 303)


def _show(audit_id: str, kind: EventKind) -> str:
    """Issue a link, and return the page that shows it."""
    config, session, account_id = current_config(), get_session(), current_caller().account_id
    issued = issue_link(session, account_id, audit_id)
    record_event(kind, account_id, audit_id=audit_id)
    session.commit()
    token = sign_report(config.secret_key, audit_id, issued.generation, issued.issued_at)
    return render_template(
        "pages/audits/shared_link.html",
        url=f"{config.base_url}{url_for('reports.report', token=token)}",
        audit_id=audit_id,
        expires_at=issued.issued_at + timedelta(days=config.report_link_days),
    )
