"""Reports that people download from a provider's console: what a file is, and its lines.

A provider's folder has those that it writes in `exports.py`. A file is recognized by its columns.
Its rows become the lines that a pull has, added up by day; whom a row belongs to is never read.
"""

import csv
import json
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, BinaryIO, Final

import service.connections
from detectors.errors import UnreadableLogError
from detectors.formats.text.blocks import Advance, read_blocks
from service.connections.provider import (
    DAY,
    OTHER_FEE,
    TOKENS,
    CostLine,
    Name,
    TotalsLine,
    UsageLine,
    clean,
)

_MAX_LINES: Final = 200_000  # of a file's days and groups
_MAX_CELL: Final = 100_000
_MOST: Final = 10**15
_MAX_JSON: Final = 4 << 20  # which is read as a whole
_MOST_DIGITS: Final = 30
_ROWS_BETWEEN_CHECKS: Final = 1_000
_ITEMS: Final = ("data", "usageItems")
_SUMS: Final = ("requests", "prompt_tokens", "completion_tokens", "cached_tokens")
_COUNTS: Final = (*_SUMS, "cache_write_tokens", "cache_write_1h_tokens")
_UNKNOWN: Final = (
    "This isn't a report that we know. We read the cost and usage exports of OpenAI, Anthropic, "
    "OpenRouter, Cursor and GitHub Copilot, the cost and usage report of AWS, and FOCUS exports of "
    "AWS, Azure and Google Cloud."
)

Cells = Mapping[str, str]


class UnreadableExportError(UnreadableLogError):
    """The file is no report that we know, or damaged; the message repeats nothing of it."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """A kind of file. It has all columns of one of `signs`; `is_own` decides by its first row."""

    provider: str
    name: str  # of the report that is stored; one of the same name replaces its days
    what: str
    signs: Sequence[frozenset[str]]
    read: Callable[[Cells], Iterable[TotalsLine | Name]]
    is_own: Callable[[Cells], bool] = lambda _cells: True
    organization: Sequence[str] = ()  # columns with its ID

    def recognizes(self, cells: Cells) -> bool:
        return any(names <= cells.keys() for names in self.signs) and self.is_own(cells)


@dataclass(frozen=True)
class Reading:
    """What a file has: lines by day, the names of projects, and how many rows concern others."""

    export: Export
    by_organization: Mapping[str, Sequence[TotalsLine]]  # "" where the file doesn't say which
    names: Sequence[Name]
    rows: int
    left_out: int

    @property
    def lines(self) -> Sequence[TotalsLine]:
        return [line for lines in self.by_organization.values() for line in lines]

    @property
    def first(self) -> datetime:
        return min(line.bucket for line in self.lines)

    @property
    def end(self) -> datetime:
        """Return the first moment after the days of the file."""
        return max(line.bucket for line in self.lines) + DAY


def signs(*sets: str) -> Sequence[frozenset[str]]:
    """Return sets of columns, each given as one text with commas."""
    return tuple(frozenset(names.split(",")) for names in sets)


@cache
def list_exports() -> Sequence[Export]:
    """Return the kinds of files of every provider."""
    found = []
    for module in pkgutil.iter_modules(service.connections.__path__):
        name = f"{service.connections.__name__}.{module.name}"
        if module.ispkg and any(
            each.name == "exports" for each in pkgutil.iter_modules(import_module(name).__path__)
        ):
            found += import_module(f"{name}.exports").EXPORTS
    return found


def read_export(
    file: BinaryIO, *, max_bytes: int | None = None, advance: Advance | None = None
) -> Reading:
    """Return what a report has, all of it, or raise `UnreadableExportError`."""
    rows = _read_rows(read_blocks(file, max_bytes=max_bytes, advance=advance))
    first: Cells = next(rows, {})
    export = next((each for each in list_exports() if each.recognizes(first)), None)
    if export is None:
        raise UnreadableExportError(_UNKNOWN)
    found_by: dict[str, dict[Any, TotalsLine]] = defaultdict(dict)  # lines by their labels
    names: dict[tuple[str, str], Name] = {}
    number = left_out = 0
    for number, cells in enumerate(chain([first], rows), 1):
        found = list(_read(export, cells, number))
        left_out += not found
        if advance and number % _ROWS_BETWEEN_CHECKS == 0:  # a block may have many rows
            advance(0)
        for each in found:
            if isinstance(each, Name):
                names[each.kind, each.id] = each
            else:
                _include(found_by[clean(pick(cells, *export.organization))], each)
        if sum(map(len, found_by.values())) > _MAX_LINES or len(names) > _MAX_LINES:
            raise UnreadableExportError(
                f"This report has more than {_MAX_LINES:,} days and groups. Export fewer days."
            )
    if not found_by:
        raise UnreadableExportError(
            f"This file has {export.what}, without any use of models. Choose days that have some."
        )
    unnamed = found_by.pop("", {})
    if len(found_by) > 1 and unnamed:
        raise UnreadableExportError(
            f"This file has {export.what} of several organizations, and rows that don't say of "
            "which. Export one organization at a time."
        )
    # Rows without a name are of the only organization that has one.
    only = next(iter(found_by), "")
    for line in unnamed.values():
        _include(found_by[only], line)
    by_organization = {name: list(lines.values()) for name, lines in found_by.items()}
    return Reading(export, by_organization, list(names.values()), number, left_out)


def _read(export: Export, cells: Cells, number: int) -> Iterable[TotalsLine | Name]:
    try:
        for each in export.read(cells):
            if isinstance(each, CostLine):
                _check(each.amount)
            # Refuse sums of all models, which no call can be compared with.
            missing = ""
            if isinstance(each, UsageLine) and not each.model:
                missing = "model" if each.prompt_tokens or each.completion_tokens else ""
            elif isinstance(each, CostLine) and each.kind in (TOKENS, OTHER_FEE):
                missing = "line item" if each.amount and not each.line_item else ""
            if missing:
                raise UnreadableExportError(
                    f"This file has {export.what}, but not by {missing}. Export it grouped by "
                    f"{missing}."
                )
            yield each
    except KeyError as error:
        raise UnreadableExportError(
            f"This file has {export.what}, but row {number:,} has no value for {error.args[0]}."
        ) from None
    except (ValueError, ArithmeticError):
        raise UnreadableExportError(
            f"This file has {export.what}, but row {number:,} has a time or number that we can't "
            "read. Export it again, and don't save it with a spreadsheet program."
        ) from None


def add_up(lines: Iterable[TotalsLine]) -> Sequence[TotalsLine]:
    """Return a line for all lines with the same labels."""
    found: dict[Any, TotalsLine] = {}
    for line in lines:
        _include(found, line)
    return list(found.values())


def _include(lines: dict[Any, TotalsLine], line: TotalsLine) -> None:
    labels = (line.bucket, line.project_id, line.key_id, line.model)
    if isinstance(line, CostLine):
        key: Any = (CostLine, *labels, line.line_item, line.kind, line.currency)
    else:
        key = (UsageLine, *labels, line.tier, line.context, line.region)
    whole = lines.get(key)
    if whole is None:
        lines[key] = line
    elif isinstance(whole, CostLine) and isinstance(line, CostLine):
        listed = _plus(whole.list_amount, line.list_amount)
        lines[key] = replace(whole, amount=whole.amount + line.amount, list_amount=listed)
    elif isinstance(whole, UsageLine) and isinstance(line, UsageLine):
        sums: dict[str, Any] = {
            name: getattr(whole, name) + getattr(line, name) for name in _COUNTS
        }
        units = {
            name: whole.units.get(name, 0) + line.units.get(name, 0)
            for name in {**whole.units, **line.units}
        }
        lines[key] = replace(whole, **sums, units=units, usd=_plus(whole.usd, line.usd))


def _plus(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return None if first is None or second is None else first + second


# --- Rows


def _read_rows(blocks: Iterator[bytes]) -> Iterator[Cells]:
    """Yield the rows of a CSV, or of JSON, by the names of their columns, which are trimmed."""
    start = next(blocks, b"")
    blocks = chain([start], blocks)
    if start.lstrip().startswith((b"{", b"[")):
        yield from _read_objects(blocks)
        return
    csv.field_size_limit(_MAX_CELL)
    header: list[str] = []
    try:
        for row in csv.reader(_lines(blocks), strict=False):
            if not header:
                header = [name.strip() for name in row]
            elif any(cell.strip() for cell in row):
                yield {name: cell.strip() for name, cell in zip(header, row, strict=False) if name}
    except csv.Error:
        raise UnreadableExportError("This isn't a CSV that we can read. Export it again.") from None


def _lines(blocks: Iterator[bytes]) -> Iterator[str]:
    left = b""
    for block in blocks:
        *whole, left = (left + block).split(b"\n")
        yield from (line.decode("utf-8", "replace") + "\n" for line in whole)
        if len(left) > _MAX_CELL:
            raise UnreadableExportError(
                "This isn't a CSV that we can read: its lines are too long."
            )
    if left:
        yield left.decode("utf-8", "replace")


def _read_objects(blocks: Iterator[bytes]) -> Iterator[Cells]:
    """Yield the objects of an API's answer: nested members become columns, such as amount_value."""
    content = bytearray()
    for block in blocks:
        content += block
        if len(content) > _MAX_JSON:
            raise UnreadableExportError("This JSON is too large. Export fewer days.")
    try:
        document = json.loads(content, parse_float=str)
    except (ValueError, RecursionError):
        raise UnreadableExportError(_UNKNOWN) from None
    items: Any = document
    if isinstance(document, dict):
        items = next((document[name] for name in _ITEMS if name in document), [document])
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        inner = item.get("results")
        for result in inner if isinstance(inner, list) else [item]:
            if isinstance(result, dict):
                outer = {name: value for name, value in item.items() if name != "results"}
                yield dict(_flat({**outer, **result}))


def _flat(item: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in item.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}_")
        elif not isinstance(value, list):
            yield f"{before}{name}", "" if value is None else str(value)


# --- Cells


def pick(cells: Cells, *names: str) -> str:
    """Return the first of these columns that has a value, or ""."""
    return next((cells[name] for name in names if cells.get(name)), "")


def day_of(cells: Cells, *names: str) -> datetime:
    """Return the UTC day of a date, an ISO 8601 time, or seconds."""
    text = pick(cells, *names)
    if not text:
        raise KeyError(names[0])
    with suppress(ValueError):
        seconds = float(text)
        return _midnight(datetime.fromtimestamp(seconds, UTC))
    moment = datetime.fromisoformat(text.replace(" UTC", "").replace("/", "-"))
    return _midnight(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _midnight(moment: datetime) -> datetime:
    whole = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if not 2000 < whole.year < 2200:
        raise ValueError
    return whole


def count_of(cells: Cells, *names: str) -> int:
    """Return a count, 0 if it is empty."""
    number = usd_of(cells, *names)
    if number < 0 or number != int(number) or number >= 2**62:
        raise ValueError
    return int(number)


def usd_of(cells: Cells, *names: str) -> Decimal:
    """Return an amount, 0 if it is empty."""
    text = pick(cells, *names).replace(",", "").removeprefix("$")
    return _check(Decimal(text or 0))


def _check(number: Decimal) -> Decimal:
    is_long = number.is_finite() and abs(number.adjusted()) > _MOST_DIGITS
    if is_long or not number.is_finite() or abs(number) >= _MOST:
        raise ValueError
    return number
