"""Detects the format of a file from its first bytes."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from detectors.contract import RECORD_V2_FIELDS, REQUIRED_FIELDS
from detectors.errors import MalformedJSONError, TooComplexError, UnreadableLogError
from detectors.formats.adapters import find_adapters, find_sums
from detectors.formats.adapters.rows import Row
from detectors.formats.adapters.tables import is_export_header
from detectors.formats.csv_logs.mapping import ColumnMapping
from detectors.formats.csv_logs.names import (
    DELIMITERS,
    find_foreign_header,
    header_cells,
    parse_header,
)
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.json_logs.records import RECORDS
from detectors.formats.text.splitting import MAX_LINE_BYTES, split_array_start

# Pages, messages and the API reference list these. Records are read from files, too, but most
# people send them as batches.
DIALECTS: Final = (OPENAI, ANTHROPIC)
JSON_STYLES: Final = " or ".join(dialect.style for dialect in DIALECTS)
EXPECTED: Final = (
    f"use {', '.join(f'{dialect.style} JSON Lines' for dialect in DIALECTS)}, one JSON array of "
    f"either, a CSV with at least these columns: {', '.join(REQUIRED_FIELDS)}, or an export of a "
    "tool that we read, in UTF-8 and with token counts only."
)
_UNREADABLE: Final = "We couldn't read this file"
HEAD_BYTES: Final = 1 << 18
_SAMPLE: Final = 50
# A header of 27 names is far shorter, even if it also has a hundred unknown columns.
MAX_HEADER_BYTES: Final = 1 << 16
_PROVIDER_KEYS: Final = frozenset({"usage", "response", "request", "model", "messages", "choices"})
_RECORD_KEYS: Final = frozenset({"model", "prompt_tokens", "completion_tokens"})
_NO_RECORD_KEYS: Final = frozenset({"usage", "response", "request"})
_RECORD_NAMES: Final = frozenset(RECORD_V2_FIELDS)
LINE_DIALECTS: Final = (*DIALECTS, RECORDS)
# Of the lines of our own formats; a file of only these needs no adapter.
_OWN_NAMES: Final = frozenset(
    name
    for dialect in LINE_DIALECTS
    for layout in (dialect.flat, dialect.wrapped)
    for name in layout.shape.members
)
_OPENAI_USAGE: Final = frozenset(
    (
        *("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"),
        *("completion_tokens_details", "input_tokens_details"),
    )
)
_ANTHROPIC_USAGE: Final = frozenset(
    (
        *("cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"),
        *("server_tool_use", "iterations", "inference_geo", "speed"),
    )
)


Container = Literal["lines", "array"]


class Format(NamedTuple):
    """A file's format: its container, its dialect if it is JSON, its delimiter if it is CSV.

    An export is read by adapters; a document is one object, or a page of an API's response. Of a
    CSV that `has_json`, members within cells are mapped.
    """

    container: Container | Literal["csv", "document"]
    dialect: Dialect | None = None
    delimiter: str = ","
    is_export: bool = False
    has_json: bool = False


def detect_format(
    blocks: Iterator[bytes], mapping: ColumnMapping | None = None
) -> tuple[Format, Iterator[bytes]]:
    """Return the format, and all blocks: those that were read to detect it, and the others.

    The decision uses the same first bytes whatever the size of the blocks: at least one whole line.
    """
    taken: list[bytes] = []
    size = first_line = 0
    is_whole = is_begun = False
    while size < HEAD_BYTES or (not first_line and size <= MAX_LINE_BYTES):
        block = next(blocks, None)
        if block is None:
            is_whole = True
            break
        # Each block is searched once: for the end of the first line that is not blank.
        begin = 0 if is_begun else len(block) - len(block.lstrip())
        is_begun = is_begun or begin < len(block)
        if is_begun and not first_line and (end := block.find(b"\n", begin) + 1):
            first_line = size + end
        taken.append(block)
        size += len(block)
    head = b"".join(taken)[: max(HEAD_BYTES, first_line)]
    form = _find_mapped(head, mapping) if mapping else None
    form = form or detect(head, is_whole=is_whole and len(head) == size)
    return form, chain(taken, blocks)


def detect(head: bytes, *, is_whole: bool) -> Format:
    """Return the format of a file that begins with `head`; `is_whole` if that is all of it.

    A file in no known format raises `UnreadableLogError`, which lists the formats.
    """
    text = head.lstrip()
    first_line = _first_line(text)
    for delimiter in DELIMITERS:
        names = header_cells(first_line, delimiter)
        cells = [name.lower() for name in names]
        if set(cells) <= _RECORD_NAMES and _is_header(cells):
            return Format("csv", delimiter=delimiter)
        if len(names) > 1 and not text.startswith((b"{", b"[")) and is_export_header(names):
            return Format("csv", delimiter=delimiter, is_export=True)
        if _is_header(cells):
            return Format("csv", delimiter=delimiter)
    container: Container = "array" if text.startswith(b"[") else "lines"
    objects = list[dict[str, Any]]()
    for piece in _pieces(text, container, is_whole):
        with suppress(MalformedJSONError, TooComplexError):
            document = decode_document(piece)
            objects += [document] if isinstance(document, dict) else []
        if len(objects) == _SAMPLE:
            break
    # One object over several lines, or a page of an API's response.
    page = objects[0].get("data") if len(objects) == 1 and "usage" not in objects[0] else None
    items = page[:_SAMPLE] if isinstance(page, list) else ()
    is_page = any(isinstance(item, dict) and _is_export(item) for item in items)
    if is_page or (not objects and first_line.strip() == "{"):
        return Format("document", is_export=True)
    if any(map(_is_export, objects)):
        return Format(container, is_export=True)
    if not any(_PROVIDER_KEYS & document.keys() for document in objects):
        first = next((piece for piece in _pieces(text, container, is_whole) if piece.strip()), b"")
        reason = reason_of(first) if first.lstrip().startswith(b"{") else ""
        because = f", whose first line is {reason}" if not objects and "comma" in reason else ""
        error = UnreadableLogError(f"{_UNREADABLE}{because}: {EXPECTED}")
        error.columns = () if objects else tuple(find_foreign_header(first_line))
        error.head = head
        raise error
    # Most gateways copy OpenAI's.
    dialects = (_find_dialect(document) for document in objects)
    return Format(container, next((dialect for dialect in dialects if dialect), OPENAI))


def _find_mapped(head: bytes, mapping: ColumnMapping) -> Format | None:
    """Return the format of JSON, or of the CSV whose header has the most columns of the mapping."""
    text = head.lstrip()
    if text.startswith((b"{", b"[")):
        is_document = text.startswith(b"{") and _first_line(text).strip() == "{"
        array: Container = "array" if text.startswith(b"[") else "lines"
        return Format("document" if is_document else array)
    headers = {name: parse_header(_first_line(text), name) for name in DELIMITERS}
    named = {name: mapping.count_named(cells) for name, cells in headers.items()}
    best = max(named, key=named.__getitem__)
    if sums := find_sums(Row(dict.fromkeys(header_cells(_first_line(text), best)))):
        raise UnreadableLogError(sums.refusal())  # whatever its columns are mapped to
    has_json = mapping.reaches_into(headers[best])
    return Format("csv", delimiter=best, has_json=has_json) if named[best] else None


def _is_export(document: dict[str, Any]) -> bool:
    if document.keys() <= _OWN_NAMES:
        return False
    row = Row(document)
    return any(find_adapters(row)) or find_sums(row) is not None


def _pieces(text: bytes, container: Container, is_whole: bool) -> Iterator[bytes]:
    """Yield the complete lines or elements of the text, split as far as they are taken."""
    if container == "array":
        return split_array_start(text)
    lines = text.split(b"\n")
    return iter(lines if is_whole else lines[:-1])


def _first_line(text: bytes) -> str:
    line = text.split(b"\n", 1)[0].rstrip(b"\r")
    return "" if len(line) > MAX_HEADER_BYTES else line.decode("utf-8", "replace")


def _find_dialect(document: dict[str, Any]) -> Dialect | None:
    if document.keys() >= _RECORD_KEYS and not document.keys() & _NO_RECORD_KEYS:
        return RECORDS
    response = document.get("response")
    body = response if isinstance(response, dict) else document
    usage = body.get("usage")
    keys = usage.keys() if isinstance(usage, dict) else frozenset[str]()
    # Counts are the best sign: gateways put other providers' models behind either API.
    if keys & _OPENAI_USAGE:
        return OPENAI
    if keys & _ANTHROPIC_USAGE or body.get("type") == "message":
        return ANTHROPIC
    if "object" in body or "system_fingerprint" in body:
        return OPENAI
    names = [body.get("id"), body.get("model"), document.get("provider")]
    signs = ("msg_", "claude", "anthropic")
    is_anthropic = any(isinstance(name, str) and name.startswith(signs) for name in names)
    return ANTHROPIC if is_anthropic else None


def _is_header(cells: Sequence[str]) -> bool:
    """Check that at least two cells are field names, so that data or text is not a header."""
    return len(set(cells) & _RECORD_NAMES) >= 2
