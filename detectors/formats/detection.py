"""Detects the format of a file from its first bytes."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple

from detectors.contract import RECORD_FIELDS, REQUIRED_FIELDS
from detectors.errors import MalformedJSONError, UnreadableLogError
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.splitting import MAX_LINE_BYTES, split_array_start

# Pages, messages and the API reference list these.
DIALECTS: Final = (OPENAI, ANTHROPIC)
JSON_STYLES: Final = " or ".join(dialect.style for dialect in DIALECTS)
EXPECTED: Final = (
    f"Use {', '.join(f'{dialect.style} JSON Lines' for dialect in DIALECTS)}, one JSON array of "
    "either, or a CSV "
    f"with at least these columns: {', '.join(REQUIRED_FIELDS)}. Use UTF-8 and token counts only."
)
_UNREADABLE: Final = "We couldn't read this file."
HEAD_BYTES: Final = 1 << 18
_SAMPLE: Final = 50
_PROVIDER_KEYS: Final = frozenset({"usage", "response", "request", "model", "messages", "choices"})
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
    """A file's format: its container, and for JSON the dialect of its objects."""

    container: Literal["lines", "array", "csv"]
    dialect: Dialect | None = None


def detect_format(blocks: Iterator[bytes]) -> tuple[Format, Iterator[bytes]]:
    """Return the format, and all blocks: those that were read to detect it, and the others.

    The decision uses the same first bytes whatever the size of the blocks: at least one whole line.
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
    form = detect(head, is_whole=is_whole and len(head) == size)
    return form, chain(taken, blocks)


def _find_first_line_end(text: bytes) -> int:
    """Return the end of the first line that is not blank; 0 if it is not in the text yet."""
    return text.find(b"\n", len(text) - len(text.lstrip())) + 1


def detect(head: bytes, *, is_whole: bool) -> Format:
    """Return the format of a file that begins with `head`; `is_whole` if that is all of it.

    A file in no known format raises `UnreadableLogError`, which lists the formats.
    """
    text = head.lstrip()
    if _is_header(_parse_header(_first_line(text))):
        return Format("csv")
    container: Literal["lines", "array"] = "array" if text.startswith(b"[") else "lines"
    pieces = split_array_start(text) if container == "array" else _lines(text, is_whole)
    objects = list(islice(_objects(pieces), _SAMPLE))
    if not any(_PROVIDER_KEYS & document.keys() for document in objects):
        raise UnreadableLogError(_complaint(pieces, objects))
    return Format(container, _dialect_of(objects))


def _complaint(pieces: list[bytes], objects: list[dict[str, Any]]) -> str:
    """Return the error message, with the reason if the objects have a comma too many."""
    first = next((piece for piece in pieces if piece.strip()), b"")
    reason = reason_of(first) if first.lstrip().startswith(b"{") else ""
    because = f" The first line is {reason}." if not objects and "comma" in reason else ""
    return f"{_UNREADABLE}{because} {EXPECTED}"


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
    """Return the first object's dialect; by default OpenAI's, which most gateways copy."""
    dialects = (_find_dialect(document) for document in objects)
    return next((dialect for dialect in dialects if dialect), OPENAI)


def _find_dialect(document: dict[str, Any]) -> Dialect | None:
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


def _parse_header(line: str) -> list[str]:
    """Return the cells of a header line in lower case; none if it is not CSV."""
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [cell.strip().lower() for cell in cells]


def _is_header(cells: Sequence[str]) -> bool:
    """Check that at least two cells are field names, so that data or text is not a header."""
    return len(set(cells) & set(RECORD_FIELDS)) >= 2
