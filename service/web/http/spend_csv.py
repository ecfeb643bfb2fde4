"""Answer with spend as CSV, for programs and for the page."""

from flask import Response, send_file

from service.models.calls.spend import Selection, iter_spend
from service.reports.spend_csv import spool_spend
from service.web.http.current import current_session_factory

_NAME = "tallystick-spend.csv"


def answer_spend_csv(account_id: str, wanted: Selection, *, mark: str = "") -> Response:
    """Return all rows; the table is complete before its first byte is sent.

    A failed query is an error, not half a table, and a slow client holds no connection.
    """
    with current_session_factory()() as session:
        file, digest = spool_spend(wanted.keys, iter_spend(session, account_id, wanted), mark=mark)
    response = send_file(
        file,
        mimetype="text/csv",
        as_attachment=True,
        download_name=_NAME,
        conditional=False,  # the API does it for all its responses, without ranges
        etag=digest,
    )
    response.content_length = file.seek(0, 2)
    file.seek(0)
    return response
