"""Every export of a corpus gives its calls, or one sentence that says what to do."""

from io import BytesIO
from typing import Any

import detectors
from detectors.errors import DetectorError
from detectors.formats import Chunk, encode_records, read_chunks, records_of
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.detectors.formats.adapters.exports import EXPORTS
from tests.detectors.formats.adapters.source_rows import CANARY
from tests.detectors.formats.sentences import is_one_sentence


def calls_of(chunks: list[Chunk]) -> list[tuple[Any, ...]]:
    return [
        (
            *(record.model, record.prompt_tokens, record.completion_tokens),
            *(record.cached_tokens or 0, record.cache_write_tokens or 0),
            *filter(None, [getattr(record, "service_tier", None)]),
        )
        for chunk in chunks
        for record in records_of(chunk.columns)
    ]


def read(file: bytes) -> tuple[list[tuple[Any, ...]], str]:
    """The calls of the file, and what is wrong with it."""
    try:
        chunks = list(read_chunks(BytesIO(file)))
    except DetectorError as error:
        return [], str(error)
    stored = b"".join(encode_records(records_of(chunk.columns)) for chunk in chunks)
    assert CANARY.encode() not in stored
    return calls_of(chunks), "; ".join(row.reason for chunk in chunks for row in chunk.invalid)


def test_there_are_sixty_odd_exports() -> None:
    assert len(EXPORTS) > 60


@each_case("name", EXPORTS)
def test_an_export_gives_its_calls_or_one_sentence(name: str) -> None:
    export = EXPORTS[name]
    calls, problem = read(export.file)
    assert CANARY not in problem
    if isinstance(export.expected, str):
        assert export.expected in problem
        assert not calls
        assert is_one_sentence(refusal(export.file))
    else:
        assert sorted(calls) == sorted(export.expected)


def refusal(file: bytes) -> str:
    """What an audit says of the file."""
    try:
        detectors.audit(BytesIO(file))
    except DetectorError as error:
        return str(error)
    raise AssertionError("the file is accepted")


@each_case("name", EXPORTS)
def test_scrub_finds_the_calls_of_an_export(name: str) -> None:
    export = EXPORTS[name]
    expected = export.scrubbed if isinstance(export.expected, str) else export.expected
    written, problem = scrubbed(export.file)
    if problem:
        assert str(export.expected) in problem
        return
    assert CANARY.encode() not in written
    found = calls_of(list(read_chunks(BytesIO(written)))) if written else []
    assert sorted(found) == sorted(expected or [])


def scrubbed(file: bytes) -> tuple[bytes, str]:
    try:
        return b"".join(Scrubber().read(BytesIO(file))), ""
    except DetectorError as error:
        return b"", str(error)
