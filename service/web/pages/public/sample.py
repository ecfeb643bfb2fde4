"""/sample: the report of fictional usage, in every format of a real report."""

from functools import cache
from typing import Final

from flask import Blueprint, Response, request, url_for

from service.reports.documents import Document, print_findings
from service.reports.html import ReportLinks, Terms, print_finding, print_report
from service.reports.sample import get_sample_report
from service.web.http.current import current_config
from service.web.pages.audits.downloads import answer_csv, answer_json, answer_pdf

_NAME: Final = "tallystick-sample-report"

blueprint = Blueprint("sample", __name__, url_prefix="/sample")


@blueprint.get("")
def sample() -> str:
    """Show the sample report or one of its findings."""
    document = Document("sample", get_sample_report)
    finding_id = request.args.get("finding")
    if finding_id is not None:
        return print_finding(document, finding_id)
    config = current_config()
    links = ReportLinks(
        pdf=url_for("sample.pdf"),
        json=url_for("sample.json"),
        findings_csv=url_for("sample.findings_csv"),
        terms=Terms(
            link_days=config.report_link_days,
            retention_days=config.raw_retention_days,
            is_sample=True,
        ),
    )
    return print_report(document, links)


@blueprint.get("/pdf")
def pdf() -> Response:
    return answer_pdf(_render_pdf(), _NAME)


@blueprint.get("/json")
def json() -> Response:
    return answer_json(get_sample_report(), _NAME)


@blueprint.get("/findings.csv")
def findings_csv() -> Response:
    return answer_csv(print_findings(get_sample_report()), _NAME)


@cache
def _render_pdf() -> bytes:
    """Render the PDF once per process; it belongs to no account."""
    from service.reports.pdf import print_pdf  # loads the PDF libraries only when needed

    return print_pdf(get_sample_report(), rules_url=current_config().rules_url)
