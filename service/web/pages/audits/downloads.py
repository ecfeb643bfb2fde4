"""Reports as files: PDF, JSON and CSV."""

from typing import Final

from flask import Response

REPORT: Final = "tallystick-report"


def answer_pdf(content: bytes, name: str = REPORT) -> Response:
    """Return a PDF that the browser shows inline if it can."""
    return _answer(content, "application/pdf", f'inline; filename="{name}.pdf"')


def answer_json(content: bytes, name: str = REPORT) -> Response:
    return _answer(content, "application/json", f'attachment; filename="{name}.json"')


def answer_csv(content: str, name: str = REPORT) -> Response:
    # Excel needs a byte order mark to recognize UTF-8.
    marked = content.encode("utf-8-sig")
    return _answer(marked, "text/csv; charset=utf-8", f'attachment; filename="{name}.csv"')


def _answer(content: bytes, content_type: str, disposition: str) -> Response:
    headers = {"Content-Disposition": disposition}
    return Response(content, content_type=content_type, headers=headers)
