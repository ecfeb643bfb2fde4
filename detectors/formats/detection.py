"""Which of the three formats a file is in, judged by its beginning alone, once a file."""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from detectors.contract import RECORD_FIELDS
from detectors.errors import MalformedJSONError, UnreadableLogError
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.arrays import split_array_start
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.sources import MAX_LINE_BYTES

EXPECTED: Final = (
    "expected OpenAI-style JSON lines, Anthropic-style JSON lines (or one JSON array of either), "
    "or CSV with commas and a header of the record's field names; in UTF-8, with token counts only"
)
HEAD_BYTES: Final = 1 << 18
_SAMPLE: Final = 50
_VENDOR_KEYS: Final = frozenset({"usage", "response", "request", "model", "messages", "choices"})
_OPENAI_USAGE: Final = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
        "input_tokens_details",
    }
)
_ANTHROPIC_USAGE: Final = frozenset(
    {
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "cache_creation",
        "server_tool_use",
        "iterations",
        "inference_geo",
        "speed",
    }
)


class Format(NamedTuple):
    """A file's format: the container, and for JSON whose objects it holds."""

    container: Literal["lines", "array", "csv"]
    dialect: Dialect | None = None


def detect_format(blocks: Iterator[bytes]) -> tuple[Format, list[bytes]]:
    """The format, and the blocks that were taken to tell it.

    It is judged by the same first bytes however large the blocks are: at least one whole line.
    """
    taken: list[bytes] = []
    size = first_line = 0
    is_whole = False
    while size < HEAD_BYTES or (not first_line and size <= MAX_LINE_BYTES):
        block = next(blocks, None)
        if block is None:
            is_whole = True
            break
        taken.append(block)
        size += len(block)
        first_line = first_line or _find_first_line_end(b"".join(taken))
    head = b"".join(taken)[: max(HEAD_BYTES, first_line)]
    return detect(head, is_whole=is_whole and len(head) == size), taken


def _find_first_line_end(text: bytes) -> int:
    """Where the first line ends that is not blank; 0 where that is not yet to be seen."""
    return text.find(b"\n", len(text) - len(text.lstrip())) + 1


def detect(head: bytes, *, is_whole: bool) -> Format:
    """The format of a file that begins with `head`; `is_whole` where that is all of it.

    Raises `UnreadableLogError`, which says what was expected, for a file of no format.
    """
    text = head.lstrip()
    if _is_header(_parse_header(_first_line(text))):
        return Format("csv")
    container: Literal["lines", "array"] = "array" if text.startswith(b"[") else "lines"
    pieces = split_array_start(text) if container == "array" else _lines(text, is_whole)
    objects = list(islice(_objects(pieces), _SAMPLE))
    if not any(_VENDOR_KEYS & document.keys() for document in objects):
        raise UnreadableLogError(_complaint(pieces, objects))
    return Format(container, _dialect_of(objects))


def _complaint(pieces: list[bytes], objects: list[dict[str, Any]]) -> str:
    """What was expected; led by what is wrong with objects that are written with a slip."""
    first = next((piece for piece in pieces if piece.strip()), b"")
    reason = reason_of(first) if first.lstrip().startswith(b"{") else ""
    return f"{reason}; {EXPECTED}" if not objects and "comma" in reason else EXPECTED


def _first_line(text: bytes) -> str:
    return text.split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace")


def _lines(text: bytes, is_whole: bool) -> list[bytes]:
    lines = text.split(b"\n")
    return lines if is_whole else lines[:-1]


def _objects(pieces: list[bytes]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        try:
            document = decode_document(piece)
        except MalformedJSONError:
            continue
        if isinstance(document, dict):
            yield document


def _dialect_of(objects: list[dict[str, Any]]) -> Dialect:
    """The vendor of the first object that tells; OpenAI's where none does, as the most copied."""
    vendors = (_find_vendor(document) for document in objects)
    return next((vendor for vendor in vendors if vendor), OPENAI)


def _find_vendor(document: dict[str, Any]) -> Dialect | None:
    response = document.get("response")
    body = response if isinstance(response, dict) else document
    usage = body.get("usage")
    keys = usage.keys() if isinstance(usage, dict) else frozenset[str]()
    # The counts tell best: gateways put other vendors' models behind either API.
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


def _parse_header(line: str) -> list[str]:
    """The cells of a header line in lower case; empty where it is no CSV at all."""
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the cells are field names at all: data, or text, is not taken for a header."""
    return len(set(cells) & set(RECORD_FIELDS)) >= 2
