"""Reports as files: PDF, JSON and CSV."""

from typing import Final

from flask import Response

from service.models.audits.audits import Audit
from service.models.identity.accounts import get_account
from service.reports.documents import Document
from service.reports.kept import get_pdf
from service.web.http.current import current_blobs, current_config, get_session

REPORT: Final = "tallystick-report"


def answer_pdf(content: bytes, name: str = REPORT) -> Response:
    """Return a PDF that the browser shows inline if it can."""
    return _answer(content, "application/pdf", f'inline; filename="{name}.pdf"')


def answer_audited_pdf(audit: Audit, document: Document) -> Response:
    """Return the PDF of an audit's report, with the name of its account."""
    content = get_pdf(
        current_blobs(),
        audit,
        document.load(),
        document.published_at,
        name=get_account(get_session(), audit.account_id).name,
        rules_url=current_config().rules_url,
    )
    return answer_pdf(content)


def answer_json(content: bytes, name: str = REPORT) -> Response:
    return _answer(content, "application/json", f'attachment; filename="{name}.json"')


def answer_csv(content: str, name: str = REPORT) -> Response:
    # Excel needs a byte order mark to recognize UTF-8.
    marked = content.encode("utf-8-sig")
    return _answer(marked, "text/csv; charset=utf-8", f'attachment; filename="{name}.csv"')


def _answer(content: bytes, content_type: str, disposition: str) -> Response:
    headers = {"Content-Disposition": disposition}
    return Response(content, content_type=content_type, headers=headers)
