"""/settings/report-links: the report links of an account, to revoke and renew."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug import Response

from service.core.tokens import sign_report
from service.errors import NotFoundError
from service.models.audits.audits import Audit
from service.models.audits.report_links import (
    SHOWN_LINKS,
    ReportLink,
    issue_link,
    list_links,
    renew_link,
    revoke_all_links,
    revoke_link,
)
from service.models.base import utc_now
from service.models.identity.security_events import EventKind
from service.reports.html import SharedLink
from service.web.auth.callers import current_caller
from service.web.auth.security_events import record_event
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private
from service.web.http.paths import check_audit_id

blueprint = Blueprint("sharing", __name__, url_prefix="/settings/report-links")
blueprint.after_request(keep_private)


class Row(NamedTuple):
    """A line of the list."""

    link: ReportLink
    created_at: datetime
    source: str
    expires_at: datetime
    state: str


@blueprint.get("")
@require_visitor
def home() -> str:
    rows = [_describe(*listed) for listed in list_links(get_session(), current_caller().account_id)]
    return render_template(
        "pages/audits/report_links.html", rows=rows, is_cut=len(rows) == SHOWN_LINKS
    )


@blueprint.post("/<audit_id>/revoke")
@require_visitor
def revoke(audit_id: str) -> Response:
    """Let every link to this report stop working."""
    return _change(revoke_link, audit_id, EventKind.LINK_REVOKED)


@blueprint.post("/<audit_id>/renew")
@require_visitor
def renew(audit_id: str) -> Response:
    """Issue a new link; every earlier link to this report stops working."""
    return _change(renew_link, audit_id, EventKind.LINK_RENEWED)


@blueprint.post("/revoke-all")
@require_visitor
def revoke_all() -> Response:
    account_id = current_caller().account_id
    count = revoke_all_links(get_session(), account_id)
    record_event(EventKind.LINK_REVOKED, account_id, count=count)
    get_session().commit()
    return redirect(url_for("sharing.home"), 303)


def share(audit: Audit) -> SharedLink:
    """Return the audit's link for its owner's page; issue it on the first visit."""
    config, session = current_config(), get_session()
    days = timedelta(days=config.report_link_days)
    issued = issue_link(session, audit.account_id, audit.id, lasting_after=utc_now() - days)
    session.commit()
    token = sign_report(config.secret_key, audit.id, issued.generation, issued.issued_at)
    url = f"{config.base_url}{url_for('reports.report', token=token)}"
    return SharedLink(
        url="" if issued.is_revoked else url,
        expires_at=issued.issued_at + days,
        opens=issued.opens,
    )


def _describe(link: ReportLink, created_at: datetime, source: str) -> Row:
    days = timedelta(days=current_config().report_link_days)
    return Row(link, created_at, source, link.issued_at + days, link.state(utc_now() - days))


def _change(change: Any, audit_id: str, kind: EventKind) -> Response:
    account_id = current_caller().account_id
    if not change(get_session(), account_id, check_audit_id(audit_id)):
        raise NotFoundError("Audit not found.")
    record_event(kind, account_id, audit_id=audit_id)
    get_session().commit()
    if request.form.get("back") == "audit":
        return redirect(url_for("audit_pages.show", audit_id=audit_id, _anchor="share"), 303)
    return redirect(url_for("sharing.home"), 303)
