"""/r/<token>: the report behind a signed link. Anyone with the link can read the report."""

from typing import Final

from flask import Response, request, url_for

from service.core.tokens import SignedReport, verify_report
from service.errors import NotFoundError
from service.models.audits.audits import INGEST, Audit
from service.models.audits.report_links import count_open, is_live_generation
from service.reports.documents import Document, find_published, print_findings
from service.reports.html import ReportLinks, Terms, print_finding, print_missing, print_report
from service.web.auth.browsers import is_prefetch
from service.web.auth.visitors import find_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_unlisted
from service.web.http.paths import REPORT_TOKEN_DOCUMENT
from service.web.openapi.blueprint import JSON_OR_PAGE, Blueprint
from service.web.openapi.report_schema import REPORT_REFERENCE
from service.web.pages.audits.downloads import answer_audited_pdf, answer_csv, answer_json

_ERRORS: Final = {
    404: "The link is invalid, expired or revoked.",
    422: "This can't be the token of a link: over 200 characters, or control characters.",
    429: "The rate limit is exceeded.",
    503: "The service is busy or restarting.",
}
_FORM_ERRORS: Final = {
    **_ERRORS,
    404: "The link is invalid, expired or revoked, or the report isn't ready.",
}

_FINDING: Final = {
    "in": "query",
    "name": "finding",
    "required": False,
    "description": "The ID of a finding, to show that finding only.",
    "schema": {"type": "string"},
}

blueprint = Blueprint("reports", __name__, description="Signed report links.")
blueprint.after_request(keep_unlisted)


@blueprint.route("/r/<token>", methods=["GET"], parameters=[REPORT_TOKEN_DOCUMENT])
@blueprint.documented(
    operation="show_report", media_type=JSON_OR_PAGE, errors=_ERRORS, parameters=[_FINDING]
)
@blueprint.response(
    200, {"type": "string"}, content_type="text/html", description="The report as a page."
)
def report(token: str) -> Response:
    """Show the report of a signed link."""
    audit, document = _find(token)
    if document is None:
        return Response(print_missing(audit), mimetype="text/html")
    finding_id = request.args.get("finding")
    if finding_id is not None:
        return Response(
            print_finding(document, finding_id, is_batch=audit.source == INGEST),
            mimetype="text/html",
        )
    # Count a visit, except the owner's own and those of programs that look ahead.
    visitor = find_visitor()
    is_owner = visitor is not None and visitor.account_id == audit.account_id
    if request.method == "GET" and not is_owner and not is_prefetch():
        count_open(get_session(), audit, _verify(token).issued_at)
        get_session().commit()
    config = current_config()
    links = ReportLinks(
        pdf=url_for("reports.pdf", token=token),
        json=url_for("reports.json", token=token),
        findings_csv=url_for("reports.findings_csv", token=token),
        terms=Terms(
            link_days=config.report_link_days,
            retention_days=config.raw_retention_days,
            report_days=config.report_retention_days if audit.source == INGEST else 0,
            is_batch=audit.source == INGEST,
        ),
    )
    return Response(print_report(document, links), mimetype="text/html")


@blueprint.route("/r/<token>/pdf", methods=["GET"], parameters=[REPORT_TOKEN_DOCUMENT])
@blueprint.documented(operation="show_report_pdf", media_type=JSON_OR_PAGE, errors=_FORM_ERRORS)
@blueprint.response(
    200,
    {"type": "string", "format": "binary"},
    content_type="application/pdf",
    description="The report as PDF.",
)
def pdf(token: str) -> Response:
    """Show the report as PDF."""
    audit, document = _get(token)
    return answer_audited_pdf(audit, document)


@blueprint.route("/r/<token>/json", methods=["GET"], parameters=[REPORT_TOKEN_DOCUMENT])
@blueprint.documented(operation="download_report", media_type=JSON_OR_PAGE, errors=_FORM_ERRORS)
@blueprint.response(
    200,
    REPORT_REFERENCE,
    content_type="application/json",
    description="The whole report document.",
)
def json(token: str) -> Response:
    """Download the report document."""
    _, document = _get(token)
    return answer_json(document.load())


@blueprint.route("/r/<token>/findings.csv", methods=["GET"], parameters=[REPORT_TOKEN_DOCUMENT])
@blueprint.documented(operation="download_findings", media_type=JSON_OR_PAGE, errors=_FORM_ERRORS)
@blueprint.response(
    200,
    {"type": "string"},
    content_type="text/csv",
    description=(
        "All findings as a table. That of a batch with calls of less than a week has the batch's "
        "own dollars and no monthly_cost_impact_usd."
    ),
)
def findings_csv(token: str) -> Response:
    """Download the findings as a table."""
    audit, document = _get(token)
    return answer_csv(print_findings(document.load(), is_batch=audit.source == INGEST))


def _find(token: str) -> tuple[Audit, Document | None]:
    """Return the audit of a signed token, and its report once it is done."""
    session, signed = get_session(), _verify(token)
    audit = session.get(Audit, signed.audit_id)
    if audit is None or not is_live_generation(session, audit.id, signed.generation):
        raise NotFoundError
    return audit, find_published(session, audit.id)


def _verify(token: str) -> SignedReport:
    config = current_config()
    return verify_report(config.secret_keys, token, config.report_link_days)


def _get(token: str) -> tuple[Audit, Document]:
    audit, document = _find(token)
    if document is None:
        raise NotFoundError
    return audit, document
