"""Proposes how to map a file of an unknown tool, and tries it before anyone sees it.

A proposal is made from names and from what a sample of the values can be, and is shown only if
calls were read with it.
"""

import csv
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from detectors.contract import FIELD_NAME, REQUIRED_FIELDS
from detectors.errors import DetectorError
from detectors.formats.adapters import find_sums, read_row
from detectors.formats.adapters.calls import NO_USAGE, find_moment
from detectors.formats.adapters.containers import page_of
from detectors.formats.adapters.exchanges import read_exchange
from detectors.formats.adapters.labels import find_model, provider_of
from detectors.formats.adapters.reading import NumberedItem
from detectors.formats.adapters.rows import UNREADABLE, Row, parsed
from detectors.formats.adapters.tables import value_of
from detectors.formats.chunks import Chunk
from detectors.formats.columns import TABLE_FIELDS
from detectors.formats.csv_logs.mapping import ColumnMapping
from detectors.formats.csv_logs.names import BY_MODEL, SYNONYMS, UNCACHED, delimiter_of, plain
from detectors.formats.fields import PROVIDER_TEXT
from detectors.formats.json_logs.mapped import is_path, members_of, read_mapped, read_mapped_cells
from detectors.formats.json_logs.unread import explain, is_unread, source_of
from detectors.formats.json_logs.usage.reader import count_of
from detectors.formats.text.splitting import split_array_start

_PROVIDERS: Final = {"Cursor's usage events": "cursor", "Ollama's answers": "ollama"}
_SAMPLE_ROWS: Final = 200
_LONG_BYTES: Final = 100_000
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_FIELDS: Final = (
    *("ts", "model", "provider", *_COUNTS, "reasoning_tokens"),
    *("latency_ms", "endpoint", "request_id", "session_id", "declared_max_tokens", "environment"),
)
# A call without one of these, with a time that is wrong, or with other counts would not be a call.
_NEEDED: Final = ("ts", "model", "provider", *_COUNTS)
_PARTS: Final = _COUNTS[2:]
# Names that mean counts only beside others of the same usage.
_SHORT: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt_tokens": ("input", "prompt"),
    "completion_tokens": ("output", "completion"),
    "cached_tokens": ("cache_read", "cacheread", "cached"),
    "cache_write_tokens": ("cache_write", "cachewrite", "cache_creation"),
}
_WITHOUT_CACHE: Final = ("nocachetokens", "input_w_o_cache_write", "uncached_input_tokens")
Values = Mapping[str, Sequence[Any]]


def propose_for_objects(texts: Sequence[bytes]) -> str:
    """Return the options that map the objects of an unknown tool, or what they lack."""
    documents = list(_documents_of(texts))
    columns = _aligned([dict(members_of(document)) for document in documents])
    named = next(filter(None, map(source_of, documents)), "")
    batch = [NumberedItem(number, text) for number, text in enumerate(texts, 1)]

    def try_out(mapping: ColumnMapping) -> Iterator[Chunk]:
        return read_mapped([batch], mapping, ignores_others=True)

    return _propose(columns, named, try_out, least=(len(texts) + 1) // 2)


def explain_error(error: DetectorError) -> tuple[str, str]:
    """Return whose file it is, if that is known, and how it is mapped, if nothing else reads it."""
    text = error.head.lstrip()
    if text.startswith(b"["):
        return explain_objects(list(islice(split_array_start(text), _SAMPLE_ROWS)))
    if text.startswith(b"{"):
        return explain_objects(text.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS])
    if not error.columns:
        return "", ""
    line = text.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    return "", propose_for_table(error.head, delimiter_of(line))


def explain_objects(texts: Sequence[bytes]) -> tuple[str, str]:
    """Return whose objects these are, and how they are mapped; nothing if `scrub` reads some."""
    unread = []
    for text in texts:
        with suppress(*UNREADABLE):
            row = Row.decode(text)
            if is_unread(explain(row, text)):
                unread.append(text)
    for text in texts if unread else ():
        with suppress(*UNREADABLE):
            row = Row.decode(text)
            _, found = read_row(Row.decode(text), {})
            is_known = any(seen != NO_USAGE for seen in found) or page_of(row) is not None
            is_own = "prompt_tokens" in row and "model" in row
            if is_known or is_own or read_exchange(text).readings:
                return "", ""
    if not unread:
        return "", ""
    if sums := next(filter(None, map(find_sums, map(Row, _documents_of(texts)))), None):
        return f"{sums.what}, which has totals instead of calls: {sums.instead}", ""
    named = next(filter(None, map(source_of, _documents_of(unread))), "")
    return named, propose_for_objects(unread)


def propose_for_table(head: bytes, delimiter: str) -> str:
    """Return the options that map the columns of a CSV, each of them, or what it lacks."""
    from detectors.formats.csv_logs.table import read_csv  # which imports what detects formats

    # Only a long file has more than its beginning, whose last line may be cut.
    whole = head[: head.rfind(b"\n") + 1] if len(head) > _LONG_BYTES else head
    lines, rows = whole.decode("utf-8", "replace").splitlines(keepends=True), list[list[str]]()
    with suppress(csv.Error):
        for row in islice(csv.reader(lines, delimiter=delimiter), _SAMPLE_ROWS):
            if row:
                rows.append([cell.strip() for cell in row])
    if len(rows) < 2:
        return ""
    names = [name.strip() for name in rows[0]]
    count = Counter(map(str.lower, names))
    columns = {
        name if FIELD_NAME.fullmatch(name) and count[name.lower()] == 1 else f"#{number}": (
            name,
            [row[number - 1] for row in rows[1:] if len(row) == len(names)],
        )
        for number, name in enumerate(names, 1)
    }

    lowered = [name.lower() for name in names]

    def try_out(mapping: ColumnMapping) -> Iterator[Chunk]:
        read = read_mapped_cells if mapping.reaches_into(lowered) else read_csv
        return read(iter([whole]), delimiter, mapping)

    values = {key: list(map(value_of, cells)) for key, (_, cells) in columns.items()}
    titles = {key: name for key, (name, _) in columns.items()}
    for key, cells in list(values.items()):
        objects = [parsed(cell) for cell in cells]
        if any(isinstance(each, dict) for each in objects):
            values |= _aligned([dict(members_of({key: each})) for each in objects], beside=key)
    source = source_of(dict.fromkeys(names))
    return _propose(values, source, try_out, others=list(columns), titles=titles)


def _aligned(rows: Sequence[Mapping[str, Any]], beside: str = "") -> dict[str, list[Any]]:
    """Return the columns of some rows, without those whose names may be somebody's text."""
    paths = dict.fromkeys(path for row in rows for path in row if path != beside)
    columns = {path: [row.get(path) for row in rows] for path in paths if is_path(path)}
    return {
        path: [value_of(value) if isinstance(value, str) else value for value in values]
        for path, values in columns.items()
    }


def _documents_of(texts: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for text in texts:
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            document = msgspec.json.decode(text)
            if isinstance(document, dict):
                yield document


def _propose(
    columns: Values,
    source: str,
    try_out: Any,
    *,
    least: int = 1,
    others: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
) -> str:
    """Return the options, once at least so many calls were read with them.

    `others` are dropped if they are not mapped.
    """
    found = _find_fields(columns, titles or {})
    missing = [name for name in REQUIRED_FIELDS if name not in found.values()]
    missing = [name for name in missing if name != "provider"]
    if UNCACHED in found.values() and "prompt_tokens" in missing:
        missing.remove("prompt_tokens")
    if missing:
        return _lacking(missing)
    provider = ""
    if "provider" not in found.values():
        models = [
            str(value) for key, name in found.items() if name == "model" for value in columns[key]
        ]
        known = [name for name in map(provider_of, models) if name != "unknown"]
        most = BY_MODEL if len(set(known)) > 1 else max(known, default="openai")
        provider = _PROVIDERS.get(source) or most
    needed = {key: name for key, name in found.items() if name in (*_NEEDED, UNCACHED)}
    # A member with a field's name may mean something else, such as the status "success".
    own = [key for key in columns if key.lower() in TABLE_FIELDS]
    for fields, left_out in ((found, others), (needed, others), (needed, [*others, *own])):
        dropped = [key for key in dict.fromkeys(left_out) if key not in fields]
        with suppress(DetectorError):
            mapping = ColumnMapping(fields, dropped, provider)
            if sum(len(chunk.columns["ts"]) for chunk in try_out(mapping)) >= least:
                options = []
                for key in columns:
                    if key in fields and key != fields[key]:
                        options.append(f"--map {shlex.quote(f'{key}={fields[key]}')}")
                    elif key in dropped:
                        options.append(f"--drop {shlex.quote(key)}")
                if provider:
                    options.append(f"--provider {provider}")
                return " ".join(options)
    return _lacking(["ts", "model", "prompt_tokens", "completion_tokens"])


def _lacking(missing: Sequence[str]) -> str:
    return f"no name that we know is for {', '.join(missing)}: map those yourself"


def _find_fields(columns: Values, titles: Mapping[str, str]) -> dict[str, str]:
    """Return the fields by the column whose name and values fit them best."""
    # A path and its ends, each as one word: `usage_input` and `input`.
    parts = {key: titles.get(key, key).split(".") for key in columns}
    names = {
        key: {plain("_".join(path[start:])) for start in range(len(path))}
        for key, path in parts.items()
    }
    found: dict[str, str] = {}
    for field in _FIELDS:
        words = (field, *SYNONYMS.get(field, ()), *_SHORT.get(field, ()))
        ranked = [
            (min(map(words.index, tails & set(words))), key.count("."), len(key), key)
            for key, tails in names.items()
            if key not in found and not tails.isdisjoint(words)
        ]
        check = _CHECKS.get(field, find_model)
        for *_, key in sorted(ranked):
            given = [value for value in columns[key] if value not in (None, "")]
            fits = sum(map(bool, map(check, given))) * 2 > len(given)  # most of them
            if key == field or fits:
                found[key] = field
                break
    for key, tails in names.items():
        if not tails.isdisjoint(_WITHOUT_CACHE):
            found = {each: name for each, name in found.items() if name != "prompt_tokens"}
            found[key] = UNCACHED
    key_of = {name: key for key, name in found.items()}
    cached = [columns[key_of[name]] for name in _PARTS if name in key_of]
    if cached and "prompt_tokens" in key_of:
        for prompt, *counts in zip(columns[key_of["prompt_tokens"]], *cached, strict=True):
            # Smaller than what was read from the cache and written to it: it leaves that out.
            if sum(filter(_is_count, counts)) > (prompt if _is_count(prompt) else 0):
                found[key_of["prompt_tokens"]] = UNCACHED
                break
    return found


def _is_time(value: Any) -> bool:
    is_day = isinstance(value, str) and len(value) <= len("2026-09-01")
    return not is_day and find_moment(value) is not None


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and count_of(value) is not None


_CHECKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "ts": _is_time,
    "provider": lambda value: isinstance(value, str) and PROVIDER_TEXT.match(value.lower()),
    "latency_ms": lambda value: type(value) in (int, float) and value >= 0,
    **dict.fromkeys((*_COUNTS, "reasoning_tokens", "declared_max_tokens"), _is_count),
}
