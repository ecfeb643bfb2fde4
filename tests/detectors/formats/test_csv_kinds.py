"""CSV as other programs write it: other delimiters, encodings, times and cases mean the same."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from typing import Final

import pytest

from detectors.errors import ContractError
from detectors.formats import Chunk, read_chunks
from detectors.scrub.texts import read_texts
from tests.cases import each_case

START: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
TIMES: Final = [START + timedelta(seconds=7 * n) for n in range(20)]
HEADER: Final = ("ts", "provider", "model", "prompt_tokens", "completion_tokens", "tag")


def _unix(units: int, at: datetime) -> str:
    return str(int(at.timestamp()) * units)


WRITINGS: Final[dict[str, Callable[[datetime], str]]] = {
    "seconds": partial(_unix, 1),
    "milliseconds": partial(_unix, 1_000),
    "microseconds": partial(_unix, 1_000_000),
    "nanoseconds": partial(_unix, 1_000_000_000),
    "a float of milliseconds": lambda at: f"{_unix(1_000, at)}.0",
    "slashes": lambda at: f"{at:%Y/%m/%d %H:%M:%S}",
    "a named zone": lambda at: f"{at:%Y-%m-%d %H:%M:%S} UTC",
    "an offset apart": lambda at: f"{at:%Y-%m-%d %H:%M:%S} +0000",
    "an offset and a zone": lambda at: f"{at:%Y-%m-%d %H:%M:%S.%f} +0000 UTC",
}


def log(
    write: Callable[[datetime], str] = datetime.isoformat,
    delimiter: str = ",",
    provider: str = "openai",
) -> str:
    rows = [[write(at), provider, "gpt-5.4", str(n), "5", f"bot-{n}"] for n, at in enumerate(TIMES)]
    return "".join(f"{delimiter.join(row)}\n" for row in [HEADER, *rows])


def read(text: bytes) -> Chunk:
    [chunk] = read_chunks(BytesIO(text))
    return chunk


EXPECTED: Final = read(log().encode())


@each_case("writing", WRITINGS)
def test_common_times_are_read(writing: str) -> None:
    text = log(WRITINGS[writing])
    assert read(text.encode()) == EXPECTED
    broken = text.replace("bot-3", 'bot "3"').replace("bot-4,", "bot-4").encode()
    assert read(broken).columns["ts"] == EXPECTED.columns["ts"]  # row by row


@each_case("ts", ["11/02/2026", "02/11/2026 09:00", "20261102090000", "46328.375"])
def test_ambiguous_times_are_not_guessed(ts: str) -> None:
    text = log(lambda at: ts if at == START else at.isoformat())
    [row] = read(text.encode()).invalid
    assert row.line == 2
    assert row.reason.startswith("ts must be an ISO 8601 time, or a Unix time")


@each_case("provider", ["OpenAI", "OPENAI"])
def test_a_provider_may_be_written_in_any_case(provider: str) -> None:
    assert read(log(provider=provider).encode()) == EXPECTED


@each_case("delimiter", ["\t", ";"])
def test_tabs_and_semicolons_delimit_cells_too(delimiter: str) -> None:
    text = log(delimiter=delimiter)
    assert read(text.encode()) == EXPECTED
    quoted = text.replace("bot-3", '"bot-3"')
    assert read(quoted.encode()) == EXPECTED
    assert read(text.replace("\n", "\r\n").encode()) == EXPECTED


@each_case("delimiter", [", ", " ,", "\t ", " ; "])
def test_spaces_around_cells_do_not_belong_to_them(delimiter: str) -> None:
    text = log(delimiter=delimiter)
    assert read(text.encode()) == EXPECTED
    padded = text.replace("\n", " \n").replace("\n2", "\n  2")
    quoted = text.replace("bot-3", '"bot-3"')
    all_quoted = text.replace("bot-", '" bot-').replace("\n", '"\n').replace('tag"', '"tag"')
    for written in (padded, quoted, all_quoted):
        assert read(written.encode()) == EXPECTED


def test_a_space_within_a_cell_belongs_to_it() -> None:
    text = log().replace("bot-", "bot ")
    assert read(text.encode()).columns["tag"][3] == "bot 3"


def test_a_decimal_comma_is_read_where_semicolons_delimit() -> None:
    text = log(delimiter=";").replace("tag\n", "latency_ms\n").replace("bot-", "12,")
    assert read(text.encode()).columns["latency_ms"][:3] == [12.0, 12.1, 12.2]


def test_a_tab_separated_file_with_text_is_rejected_for_its_text() -> None:
    text = log(delimiter="\t").replace("tag\n", "content\n")
    with pytest.raises(ContractError, match=r"never accept \(content\) in the header"):
        read(text.encode())


@each_case("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@each_case("delimiter", [",", "\t"])
def test_utf_16_is_read(encoding: str, delimiter: str) -> None:
    text = log(delimiter=delimiter).replace("bot-", "bøt-").replace("\n", "\r\n")
    expected = read(text.encode())
    assert expected.columns["tag"][0] == "bøt-0"
    assert read(text.encode(encoding)) == expected
    marked = text.encode(encoding) if encoding.startswith("utf-16-") else b""
    mark = "\ufeff".encode(encoding) if marked else b""
    assert not marked or read(mark + marked) == expected


def test_json_lines_in_utf_16_are_read_to_an_incomplete_character() -> None:
    line = '{"created":1767225600,"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}}'
    assert read(f"{line}\n{line}".encode("utf-16")) == read(f"{line}\n{line}".encode())
    assert list(read_texts(BytesIO(line.encode("utf-16")))) == [line.encode()]
    # An incomplete character does not stop the reading.
    assert read(log().encode("utf-16")[:-1]).rows == len(TIMES)
