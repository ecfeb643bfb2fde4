"""/audits/<audit_id>: the progress of an audit, and its report once it is done."""

from typing import Any, NamedTuple

from flask import Blueprint, Response, make_response, render_template, request

from service.core.tokens import sign_report
from service.errors import NotFoundError
from service.models.audits.audits import (
    DONE,
    FAILED,
    QUEUED,
    UPLOAD,
    Audit,
    find_audit,
)
from service.models.audits.turns import count_ahead
from service.reports.documents import find_published
from service.reports.html import print_finding, print_report
from service.web.auth.callers import current_caller, require_login
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private
from service.web.http.paths import check_audit_id
from service.web.pages.audits.report import report_links

# The steps shown to the visitor.
_WAITING, _VALIDATING, _AUDITING, _READY, _BROKEN = range(5)

blueprint = Blueprint("audit_pages", __name__, url_prefix="/audits")
blueprint.after_request(keep_private)


class Progress(NamedTuple):
    """The step an audit is at, and the number of audits ahead in the queue."""

    step: int
    ahead: int = 0


@blueprint.get("/<audit_id>")
@require_visitor
def show(audit_id: str) -> Response:
    audit = _get_audit(audit_id)
    report = find_published(get_session(), audit.id) if audit.status == DONE else None
    if report is None:
        return make_response(render_template("pages/audits/audit.html", **_context(audit)))
    finding_id = request.args.get("finding")
    if finding_id is not None:
        return make_response(print_finding(report, finding_id))
    token = sign_report(current_config().secret_key, audit.id)
    return make_response(print_report(report, report_links(token, owner=audit)))


@blueprint.get("/<audit_id>/progress")
@require_login
def progress(audit_id: str) -> Response:
    """Render the part of the page that htmx refreshes."""
    audit = _get_audit(audit_id)
    response = make_response(render_template("pages/audits/audit_progress.html", **_context(audit)))
    if audit.status in (DONE, FAILED):
        response.headers["HX-Refresh"] = "true"  # the page now shows a report or a failure
    return response


def _get_audit(audit_id: str) -> Audit:
    audit = find_audit(get_session(), current_caller().account_id, check_audit_id(audit_id))
    if audit is None:
        raise NotFoundError("Audit not found.")
    return audit


def _context(audit: Audit) -> dict[str, Any]:
    return {
        "audit": audit,
        "progress": _find_progress(audit),
        "has_credit": audit.source == UPLOAD,
    }


def _find_progress(audit: Audit) -> Progress:
    if audit.status == QUEUED:
        return Progress(_WAITING, count_ahead(get_session(), audit))
    if audit.status == DONE:
        return Progress(_READY)
    if audit.status == FAILED:
        return Progress(_BROKEN)
    return Progress(_VALIDATING if audit.valid_pct is None else _AUDITING)
