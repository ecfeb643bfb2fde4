"""Answer with spend as a table: CSV for programs and for the page, XLSX for the page.

A table is complete before its first byte is sent: a failed query is an error, not half a table,
and a slow client holds no connection.
"""

from typing import IO, Final

from flask import Response, send_file

from service.models.calls.spend import Selection, iter_spend
from service.reports.spend_csv import spool_spend
from service.web.http.current import current_session_factory

_NAME: Final = "tallystick-spend"
_XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def answer_spend_csv(account_id: str, wanted: Selection, *, mark: str = "") -> Response:
    """Return all rows as CSV, which begins with the mark."""
    with current_session_factory()() as session:
        file, digest = spool_spend(wanted.keys, iter_spend(session, account_id, wanted), mark=mark)
    return _send(file, "text/csv", "csv", digest)


def answer_spend_xlsx(account_id: str, wanted: Selection) -> Response:
    """Return all rows as a workbook; raise `InvalidRequestError` if they don't fit."""
    # It takes a fifth of a second to import, which most processes never need.
    from service.reports.spend_xlsx import spool_workbook

    with current_session_factory()() as session:
        file = spool_workbook(wanted.keys, iter_spend(session, account_id, wanted))
    return _send(file, _XLSX, "xlsx")


def _send(file: IO[bytes], media_type: str, ending: str, etag: str = "") -> Response:
    response = send_file(
        file,
        mimetype=media_type,
        as_attachment=True,
        download_name=f"{_NAME}.{ending}",
        conditional=False,  # the API does it for all its responses, without ranges
        etag=etag or False,
    )
    response.content_length = file.seek(0, 2)
    file.seek(0)
    return response
