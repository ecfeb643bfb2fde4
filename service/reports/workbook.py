"""Tables as Excel workbooks: dollars and counts are numbers, labels are never formulas."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from xlsxwriter import Workbook

from service.errors import InvalidRequestError

MOST_ROWS: Final = 1_048_575  # of a sheet, below its header
_IN_MEMORY_BYTES: Final = 1024 * 1024
_WIDTHS: Final = {"day": 12, "route": 36, "model": 28, "fix": 60, "note": 40, "assignee": 24}
_OTHER_WIDTH: Final = 16
# Columns of days and times, for which a sheet has no offsets.
_TIMES: Final = frozenset({"day", "ts", "first_seen", "last_seen", "fixed_at", "silent_until"})
_OPTIONS: Final = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
FULL: Final = f"A spreadsheet has room for {MOST_ROWS:,} rows. Download CSV, or choose fewer days."
_FORMATS: Final = {
    Decimal: "$#,##0.00####",
    int: "#,##0",
    datetime: "yyyy-mm-dd hh:mm:ss",
    date: "yyyy-mm-dd",
}


def spool_workbook(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, most: int = MOST_ROWS
) -> IO[bytes]:
    """Return a file with one sheet of this name, at its start.

    Decimals are dollars, integers are counts, times are in UTC, and None is an empty cell.
    """
    file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115  # the response closes it
    try:
        with Workbook(file, _OPTIONS) as workbook:
            sheet, bold = workbook.add_worksheet(name), workbook.add_format({"bold": True})
            styles = {
                kind: workbook.add_format({"num_format": number})
                for kind, number in _FORMATS.items()
            }
            sheet.freeze_panes(1, 0)
            for at, title in enumerate(header):
                sheet.set_column(at, at, _WIDTHS.get(title, _OTHER_WIDTH))
                sheet.write_string(0, at, f"{title} (UTC)" if title in _TIMES else title, bold)
            for number, row in enumerate(rows, start=1):
                if number > most:
                    raise InvalidRequestError(FULL)
                for at, value in enumerate(row):
                    _write(sheet, number, at, value, styles.get(type(value)))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _write(sheet: Any, row: int, at: int, value: Any, style: Any) -> None:
    if isinstance(value, datetime):
        sheet.write_datetime(row, at, value.replace(tzinfo=None), style)  # Excel has no offsets
    elif isinstance(value, date):
        sheet.write_datetime(row, at, value, style)
    elif isinstance(value, str):
        sheet.write_string(row, at, value)
    elif value is not None:
        sheet.write_number(row, at, value, style)
