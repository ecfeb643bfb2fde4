"""The other forms of a report, as files."""

from typing import Final

from flask import Response

REPORT: Final = "tallystick-report"


def answer_pdf(content: bytes, name: str = REPORT) -> Response:
    """Shown where the browser can, since it is read first and kept afterwards."""
    return _answer(content, "application/pdf", f'inline; filename="{name}.pdf"')


def answer_json(content: bytes, name: str = REPORT) -> Response:
    return _answer(content, "application/json", f'attachment; filename="{name}.json"')


def answer_csv(content: str, name: str = REPORT) -> Response:
    # With the mark by which spreadsheet programs know UTF-8: without, Excel garbles "Ωμέγα".
    marked = content.encode("utf-8-sig")
    return _answer(marked, "text/csv; charset=utf-8", f'attachment; filename="{name}.csv"')


def _answer(content: bytes, content_type: str, disposition: str) -> Response:
    headers = {"Content-Disposition": disposition}
    return Response(content, content_type=content_type, headers=headers)
