"""One JSON array as a log: its elements, whatever is in them, and where it may not end."""

import json
from functools import cache
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import strategies as st

from detectors.errors import UnreadableLogError
from detectors.formats import Chunk, read_chunks, records_of
from detectors.formats.text import splitting
from detectors.formats.text.splitting import MAX_LINE_BYTES, split_array
from tests.cases import each_case
from tests.exploration import explored

LINE: dict[str, Any] = {
    "created": 1_767_225_600,
    "model": "gpt-5.4",
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)

PATTERNS = {  # by version of Python: older ones have others
    version: cache(splitting._patterns.__wrapped__) for version in ((3, 11, 4), (3, 11, 5))
}


def split(text: bytes, width: int) -> list[bytes]:
    blocks = (text[start : start + width] for start in range(0, len(text), width))
    return [item for items in split_array(blocks) for item in items]


@explored(100, st.lists(VALUES, max_size=5), st.integers(1, 50), st.sampled_from([None, 1]))
def test_any_array_is_split_into_its_elements(
    values: list[Any], width: int, indent: int | None
) -> None:
    text = f" \n{json.dumps(values, indent=indent)}\r\n ".encode()
    for version, patterns in PATTERNS.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(splitting, "sys", SimpleNamespace(version_info=version))
            patch.setattr(splitting, "_patterns", patterns)
            assert [json.loads(item) for item in split(text, width)] == values


@explored(100, st.text('{}[],"\\x '), st.integers(1, 5))
def test_any_text_is_shortened_the_same_way(text: str, width: int) -> None:
    def outcome(width: int) -> list[bytes] | str:
        try:
            return split(b"[" + text.encode(), width)
        except UnreadableLogError as error:
            return str(error)

    assert outcome(width) == outcome(10_000)


COMMA = "not JSON: an extra comma, with nothing after it"


@each_case(
    ("text", "reasons"),
    [
        ("[%s,]", [COMMA]),
        ("[,%s]", [COMMA]),
        ("[%s,,%s]", [COMMA]),
        ("[%s %s,%s]", ["not JSON"]),
        ('[%s,"CANARY",null,[{"content":1}]]', ["not a JSON object"] * 3),
        ('[%s,{"model":]]', ["not JSON"]),
    ],
)
def test_elements_that_are_not_objects_are_invalid_rows(text: str, reasons: list[str]) -> None:
    log = text.replace("%s", json.dumps(LINE)).encode()
    invalid = [row for chunk in read_chunks(BytesIO(log)) for row in chunk.invalid]
    assert [row.reason for row in invalid] == reasons


@each_case("end", ["", ",", "]]", "] x", "]\n[]", "]}"])
def test_an_array_must_end_and_nothing_may_follow(end: str) -> None:
    chunks = read_chunks(BytesIO(f"[{json.dumps(LINE)}{end}".encode()))
    with pytest.raises(UnreadableLogError, match="JSON array"):
        list(chunks)


def test_an_element_that_is_too_long_is_an_error() -> None:
    text = json.dumps([LINE, LINE | {"tag": "x" * (MAX_LINE_BYTES + (2 << 20))}]).encode()
    chunks: list[Chunk] = []
    with pytest.raises(UnreadableLogError, match="object of the array is longer than"):
        chunks.extend(read_chunks(BytesIO(text)))
    assert sum(chunk.rows for chunk in chunks) == 1


def test_order_is_kept_over_many_blocks() -> None:
    log = json.dumps([LINE | {"id": f"req_{n}"} for n in range(5_000)]).encode()
    chunks = list(read_chunks(BytesIO(log), chunk_bytes=10_000))
    assert len(chunks) > 10
    records = [record for chunk in chunks for record in records_of(chunk.columns)]
    assert [record.request_id for record in records] == [f"req_{n}" for n in range(5_000)]


def test_whole_objects_of_a_block_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = Mock(wraps=splitting._patterns)
    monkeypatch.setattr(splitting, "_patterns", patterns)
    log = json.dumps([LINE] * 1_000).encode()
    assert list(map(json.loads, split(log, len(log) // 4 + 1))) == [LINE] * 1_000
    # The last of each block and the first of the next are one that both have a part of.
    assert patterns.call_count <= 3 * 4
