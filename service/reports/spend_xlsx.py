"""Spend as an Excel workbook: dollars and counts are numbers, labels are never formulas."""

from collections.abc import Iterable, Sequence
from datetime import date
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from xlsxwriter import Workbook

from service.errors import InvalidRequestError
from service.models.calls.spend import DAY, Line, Sums

MOST_ROWS: Final = 1_048_575  # of a sheet, below its header
_IN_MEMORY_BYTES: Final = 1024 * 1024
_WIDTHS: Final = {DAY: 12, "route": 36, "model": 28}
_OTHER_WIDTH: Final = 16
_OPTIONS: Final = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_FULL: Final = f"A spreadsheet has room for {MOST_ROWS:,} rows. Download CSV, or choose fewer days."


def spool_workbook(
    keys: Sequence[str], lines: Iterable[Line], *, most: int = MOST_ROWS
) -> IO[bytes]:
    """Return a file with one sheet, at its start."""
    file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115  # the response closes it
    try:
        with Workbook(file, _OPTIONS) as workbook:
            _fill(workbook, keys, lines, most)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _fill(workbook: Any, keys: Sequence[str], lines: Iterable[Line], most: int) -> None:
    sheet, columns = workbook.add_worksheet("Spend"), (*keys, *Sums._fields)
    bold = workbook.add_format({"bold": True})
    day = workbook.add_format({"num_format": "yyyy-mm-dd"})
    styles = [workbook.add_format({"num_format": "#,##0"})] * (len(Sums._fields) - 2)
    styles += [workbook.add_format({"num_format": "$#,##0.00####"})] * 2
    sheet.freeze_panes(1, 0)
    for at, name in enumerate(columns):
        sheet.set_column(at, at, _WIDTHS.get(name, _OTHER_WIDTH))
        sheet.write_string(0, at, name, bold)
    for row, line in enumerate(lines, start=1):
        if row > most:
            raise InvalidRequestError(_FULL)
        for at, value in enumerate(line.key):
            if isinstance(value, date):
                sheet.write_datetime(row, at, value, day)
            else:
                sheet.write_string(row, at, value)
        numbers = zip(line.sums, styles, strict=True)
        for at, (number, style) in enumerate(numbers, start=len(keys)):
            sheet.write_number(row, at, number, style)
