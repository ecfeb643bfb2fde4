"""An export is read in any container, and a file that is none is rejected in one sentence."""

import csv
import gzip
import json
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Final

import pytest

import detectors.formats.adapters as room
from detectors.errors import ContractError, UnreadableLogError
from detectors.formats import encode_records, read_chunks, records_of
from detectors.scrub import texts
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case

SAMPLE: Final = Path(room.__file__).parent / "gateways" / "litellm" / "sample.jsonl"
ROWS: Final[list[dict[str, Any]]] = [
    json.loads(line) | {"messages": "{}"} for line in SAMPLE.read_text().splitlines()
]
LINES: Final = b"\n".join(json.dumps(row).encode() for row in ROWS)


def read(log: bytes) -> bytes:
    chunks = read_chunks(BytesIO(log))
    return encode_records(record for chunk in chunks for record in records_of(chunk.columns))


def scrubbed(log: bytes) -> bytes:
    return b"".join(Scrubber().read(BytesIO(log)))


def table(delimiter: str = ",") -> bytes:
    text = StringIO()
    writer = csv.DictWriter(text, list(ROWS[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


PAGE: Final = {"data": ROWS, "meta": {"page": 1, "totalItems": 5}}


@each_case(
    "log",
    [
        LINES + b"\n",
        b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n\r\n"),
        json.dumps(ROWS).encode(),
        json.dumps(ROWS, indent=2).encode(),
        gzip.compress(LINES),
        json.dumps(PAGE).encode(),
        json.dumps(PAGE, indent=2).encode(),
        table(),
        table(";"),
        table("\t"),
        b"\xef\xbb\xbf" + table(),
    ],
)
def test_an_export_gives_the_same_calls_in_any_container(log: bytes) -> None:
    assert read(log) == read(LINES)
    assert read(scrubbed(log)) == read(LINES)


@each_case(
    ("log", "sentence"),
    [
        (json.dumps(PAGE, indent=2).encode()[:-40], "isn't complete JSON"),
        (json.dumps(ROWS).encode()[:-40], "The JSON array is incomplete"),
        (LINES + b'\n{"id": "x", "usage": {"input_tokens": 1}}', "line 6 is not: use a file"),
        (json.dumps({"x": "y", "z": 1}, indent=1).encode(), "We don't recognize object 1: use"),
        (b'{"call_type": "x", "status": "failure"}\n', "We found no calls in this file of LiteLLM"),
        (b"request_id,call_type,status\nx,completion,failure\n", "1 failed, so not billed"),
        (b'{"date": "2026-09-01", "api_requests": 5, "prompt_tokens": 9}\n', "totals instead of"),
        (b"date,model,api_requests,prompt_tokens\n2026-09-01,x,5,9\n", "LiteLLM_SpendLogs instead"),
    ],
)
def test_a_file_that_cannot_be_read_is_rejected_in_one_sentence(log: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableLogError, match=sentence) as caught:
        read(log)
    assert str(caught.value).count(". ") == 0


def test_a_line_that_is_cut_off_is_one_invalid_row() -> None:
    chunks = [*read_chunks(BytesIO(LINES + b"\n" + LINES[:100]))]
    invalid = [(row.line, row.reason) for chunk in chunks for row in chunk.invalid]
    assert invalid == [(6, "not JSON")]
    assert (
        sum(chunk.rows for chunk in chunks)
        == sum(chunk.rows for chunk in read_chunks(BytesIO(LINES))) + 1
    )


@each_case("name", ["prompt", "note", "a key with spaces"])
def test_a_member_that_no_adapter_knows_may_hold_numbers_but_not_text(name: str) -> None:
    assert read(json.dumps(ROWS[0] | {name: 1.5}).encode()) == read(json.dumps(ROWS[0]).encode())
    for text in ("text", {"text": "x"}, ["text"]):
        with pytest.raises(ContractError, match="may hold text"):
            read(json.dumps(ROWS[0] | {name: text}).encode())


def test_an_object_too_large_for_counts_is_rejected_with_scrub_named() -> None:
    many = json.dumps(ROWS[0] | {"request_tags": [0] * 200_000}).encode()
    with pytest.raises(ContractError, match="too large: run `tallystick scrub`"):
        read(LINES + b"\n" + many)


def test_sums_are_counted_apart_when_they_are_scrubbed() -> None:
    scrubber = Scrubber()
    sums = b'{"date": "2026-09-01", "api_requests": 5, "prompt_tokens": 9}'
    assert b"".join(scrubber.read(BytesIO(sums))) == b""
    assert scrubber.summary.reasons() == [
        (
            "totals instead of calls, of LiteLLM's daily spend: export rows of "
            "LiteLLM_SpendLogs instead",
            1,
        )
    ]


def test_a_cell_of_megabytes_is_scrubbed() -> None:
    row = ROWS[0] | {"messages": json.dumps([{"role": "user", "content": "a text " * 30_000}])}
    text = StringIO()
    writer = csv.DictWriter(text, list(row))
    writer.writeheader()
    writer.writerow(row)
    [line] = scrubbed(text.getvalue().encode()).splitlines()
    assert json.loads(line)["prefix_hash"]


def test_a_quote_that_is_never_closed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_TEXT_BYTES", 1_000)
    with pytest.raises(UnreadableLogError, match="no closing quote"):
        scrubbed(b'request_id,call_type\n"x' + b"x" * 2_000)
