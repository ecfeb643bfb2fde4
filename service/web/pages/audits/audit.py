"""/audits/<audit_id>: the progress of an audit, and its report once it is done."""

from datetime import timedelta
from typing import Any, NamedTuple

from flask import Response, make_response, redirect, render_template, request, url_for

from service.errors import NotFoundError
from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    FAILED,
    INGEST,
    QUEUED,
    UPLOAD,
    Audit,
    find_audit,
)
from service.models.audits.leases import CANCELED, cancel_audit
from service.models.audits.queue_order import count_ahead
from service.models.audits.report_links import find_link
from service.models.base import utc_now
from service.models.imports.copies import find_earlier_upload
from service.operations.outdated_reports import compare_today
from service.operations.recalculation import recalculate
from service.reports.documents import Document, find_published, print_findings
from service.reports.html import ReportLinks, SharedLink, Terms, print_finding, print_report
from service.web.auth.callers import current_caller, require_login
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_blobs, current_config, current_queues, get_session
from service.web.http.error_responses import storage_needed
from service.web.pages.audits.downloads import answer_audited_pdf, answer_csv, answer_json

# The steps shown to the visitor.
_WAITING, _VALIDATING, _AUDITING, _READY, _BROKEN = range(5)

blueprint = PrivatePages("audit_pages", __name__, url_prefix="/audits")


class Progress(NamedTuple):
    """The step an audit is at, how many audits are ahead in the queue, and how much is done."""

    step: int
    ahead: int = 0
    done_pct: int = 0


@blueprint.get("/<audit_id>")
@require_visitor
def show(audit_id: str) -> Response:
    audit = _get_audit(audit_id)
    report = find_published(get_session(), audit.id) if audit.status == DONE else None
    if report is None:
        page = "deleted_report" if audit.report_deleted_at else "audit"
        return make_response(render_template(f"pages/audits/{page}.html", **_context(audit)))
    finding_id = request.args.get("finding")
    if finding_id is not None:
        own = {"has_pages": audit.source == ACCOUNT, "is_batch": audit.source == INGEST}
        return make_response(print_finding(report, finding_id, _calls_url(audit), **own))
    config, shared = current_config(), None
    link = find_link(get_session(), audit.id)
    if link is not None:  # the page says what it is, but never has a link itself
        days = timedelta(days=config.report_link_days)
        state = link.state(utc_now() - days)
        shared = SharedLink(state=state, expires_at=link.issued_at + days, opens=link.opens)
    links = ReportLinks(
        pdf=url_for("audit_pages.pdf", audit_id=audit.id),
        json=url_for("audit_pages.json", audit_id=audit.id),
        findings_csv=url_for("audit_pages.findings_csv", audit_id=audit.id),
        terms=Terms(
            link_days=config.report_link_days,
            retention_days=config.raw_retention_days,
            report_days=config.report_retention_days if audit.source == INGEST else 0,
            is_owned=True,
            is_batch=audit.source == INGEST,
            calls_url=_calls_url(audit),
            has_pages=audit.source == ACCOUNT,
        ),
        owned=audit,
        shared=shared,
        earlier=find_earlier_upload(get_session(), audit),
        # Since the report, if the audit can be recalculated.
        changes=()
        if audit.rerun_key is None
        else compare_today(get_session(), audit.account_id)(report),
    )
    return make_response(print_report(report, links))


@blueprint.post("/<audit_id>/recalculate")
@require_visitor
def recalculate_own(audit_id: str) -> Any:
    """Audit the stored records again, at today's prices and the account's settings."""
    session, account_id = get_session(), current_caller().account_id
    with storage_needed():
        audit = recalculate(session, current_blobs(), account_id, audit_id)
    session.commit()
    current_queues().enqueue_audit(audit.id, audit.source, audit.attempts + 1)
    return redirect(url_for("audit_pages.show", audit_id=audit.id), 303)


@blueprint.post("/<audit_id>/cancel")
@require_visitor
def cancel(audit_id: str) -> Any:
    """End an audit of the account's calls that waits or runs."""
    session, audit = get_session(), _get_audit(audit_id)
    cancel_audit(session.connection(), audit.account_id, audit.id)
    session.commit()
    return redirect(url_for("audit_pages.show", audit_id=audit.id), 303)


@blueprint.get("/<audit_id>/pdf")
@require_visitor
def pdf(audit_id: str) -> Response:
    """Show the owner's report as PDF, whether or not its link is revoked."""
    audit, document = _get_report(audit_id)
    return answer_audited_pdf(audit, document)


@blueprint.get("/<audit_id>/json")
@require_visitor
def json(audit_id: str) -> Response:
    _, document = _get_report(audit_id)
    return answer_json(document.load())


@blueprint.get("/<audit_id>/findings.csv")
@require_visitor
def findings_csv(audit_id: str) -> Response:
    audit, document = _get_report(audit_id)
    return answer_csv(print_findings(document.load(), is_batch=audit.source == INGEST))


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
    audit = find_audit(get_session(), current_caller().account_id, audit_id)
    if audit is None:
        raise NotFoundError("Audit not found.")
    return audit


def _get_report(audit_id: str) -> tuple[Audit, Document]:
    audit = _get_audit(audit_id)
    document = find_published(get_session(), audit.id)
    if document is None:
        raise NotFoundError("This audit has no report.")
    return audit, document


def _calls_url(audit: Audit) -> str:
    """Return the folder of the calls of each finding; "" without the records behind them."""
    has_records = audit.frame_key is not None and audit.raw_purged_at is None
    return f"/audits/{audit.id}/calls" if has_records or audit.source == ACCOUNT else ""


def _context(audit: Audit) -> dict[str, Any]:
    return {
        "audit": audit,
        "progress": _find_progress(audit),
        "has_credit": audit.source == UPLOAD,
        "of_account": audit.source == ACCOUNT,
        "is_canceled": audit.error == CANCELED,
        "report_days": current_config().report_retention_days,
        "earlier": find_earlier_upload(get_session(), audit),
    }


def _find_progress(audit: Audit) -> Progress:
    if audit.status == QUEUED:
        return Progress(_WAITING, count_ahead(get_session(), audit))
    if audit.status == DONE:
        return Progress(_READY)
    if audit.status == FAILED:
        return Progress(_BROKEN)
    if audit.source == ACCOUNT:
        done, total = current_queues().find_progress(audit.id) or (0, 0)
        return Progress(_AUDITING if total else _VALIDATING, done_pct=100 * done // max(total, 1))
    return Progress(_VALIDATING if audit.valid_pct is None else _AUDITING)
