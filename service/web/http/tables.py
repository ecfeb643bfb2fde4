"""Send tables: CSV for programs and for pages, XLSX for pages.

A table is complete before its first byte is sent: a failed query is an error, not half a table,
and a slow client holds no connection. A file's name says that its days and times are in UTC.
"""

from collections.abc import Iterable, Sequence
from typing import IO, Any, Final

from flask import Response, send_file

from service.reports.csv_table import spool_csv

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def send_csv(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, mark: str = ""
) -> Response:
    """Return the rows as CSV, which begins with the mark."""
    file, digest = spool_csv(header, rows, mark=mark)
    return _send(file, "text/csv", f"tallystick-{name}-utc.csv", digest)


def send_workbook(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """Return the rows as a workbook; raise `InvalidRequestError` if they don't fit."""
    # It takes a fifth of a second to import, which most processes never need.
    from service.reports.workbook import spool_workbook

    return _send(
        spool_workbook(name.capitalize(), header, rows), XLSX, f"tallystick-{name}-utc.xlsx"
    )


def _send(file: IO[bytes], media_type: str, file_name: str, etag: str = "") -> Response:
    response = send_file(
        file,
        mimetype=media_type,
        as_attachment=True,
        download_name=file_name,
        conditional=False,  # the API does it for all its responses, without ranges
        etag=etag or False,
    )
    response.content_length = file.seek(0, 2)
    file.seek(0)
    return response
