"""Each adapter beside its sample log, which gives the expected records however it is read.

The files are found, so an adapter is tested as soon as its package is there.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import detectors.formats.adapters as room
from detectors.contract import UsageRecord, UsageRecordV2
from detectors.errors import ContractError, DetectorError
from detectors.formats import encode_records, read_chunks, records_of
from detectors.formats.adapters import adapters, read_row
from detectors.formats.adapters.adapter import Allowed
from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.adapters.rows import Row, parsed
from detectors.scrub.scrubber import Scrubber

ROOM: Final = Path(room.__file__).parent
TEXT: Final = "A text that never leaves this machine."


def folder_of(name: str) -> Path:
    return ROOM / name.replace(".", "/")


SAMPLES: Final = [
    (name, path) for name in adapters() for path in sorted(folder_of(name).glob("sample.*"))
]
each_sample = pytest.mark.parametrize(
    ("name", "path"), SAMPLES, ids=[f"{name}{path.suffix}" for name, path in SAMPLES]
)
each_adapter = pytest.mark.parametrize("name", adapters())


def scrubbed(log: bytes) -> bytes:
    # The texts of samples are short, and their hashes show where an adapter finds the prompt.
    return b"".join(Scrubber(hashes_short=True).read(BytesIO(log)))


def read(log: bytes) -> list[UsageRecord]:
    return [record for chunk in read_chunks(BytesIO(log)) for record in records_of(chunk.columns)]


def expected(name: str, *, is_hashed: bool = True) -> list[UsageRecord]:
    lines = (folder_of(name) / "expected.jsonl").read_bytes()
    records = msgspec.json.Decoder(UsageRecordV2).decode_lines(lines)
    if is_hashed:
        return [*records]
    less = {"prefix_hash": None, "prefix_hashes": None}
    return [msgspec.structs.replace(record, **less) for record in records]


def same(found: list[UsageRecord], wanted: list[UsageRecord]) -> bool:
    return encode_records(found) == encode_records(wanted)


@each_adapter
def test_an_adapter_has_a_sample_its_records_and_its_documentation(name: str) -> None:
    files = {path.name for path in folder_of(name).iterdir() if path.is_file()}
    assert {"__init__.py", "README.md", "expected.jsonl"} <= files
    assert any(file.startswith("sample.") for file in files)
    assert expected(name)


@each_sample
def test_a_scrubbed_sample_gives_the_expected_records_and_no_text(name: str, path: Path) -> None:
    found = scrubbed(path.read_bytes())
    assert same(read(found), expected(name))
    assert TEXT.encode() not in found


@each_sample
def test_a_sample_with_text_is_rejected_in_a_sentence_that_names_scrub(
    name: str, path: Path
) -> None:
    if TEXT.encode() not in path.read_bytes():
        assert same(read(path.read_bytes()), expected(name, is_hashed=False))
        return
    with pytest.raises(ContractError, match="may hold text .* `tallystick scrub`") as caught:
        read(path.read_bytes())
    assert TEXT not in str(caught.value)


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        return []
    text = path.read_text()
    document = json.loads(text) if text.startswith("{\n") or text.startswith("[") else None
    if document is None:
        return [json.loads(line) for line in text.splitlines()]
    page = document["data"] if isinstance(document, dict) and "data" in document else document
    return page if isinstance(page, list) else [page]


def pruned(row: Mapping[str, Any], allowed: Allowed) -> dict[str, Any]:
    """The row as a user leaves it who removes what is not allowed."""
    kept = {}
    for key, value in row.items():
        inner = allowed.get(key, ...)
        if isinstance(inner, Mapping):
            kept[key] = pruned_within(parsed(value), inner)
        elif inner is not ... or isinstance(value, int | float):
            kept[key] = value
    return kept


def pruned_within(value: Any, allowed: Allowed) -> Any:
    if isinstance(value, list):
        return [pruned_within(item, allowed) for item in value]
    return pruned(value, allowed) if isinstance(value, dict) else None


@each_sample
def test_a_sample_without_its_text_is_read_as_it_is(name: str, path: Path) -> None:
    adapter = adapters()[name]
    log = b"\n".join(json.dumps(pruned(row, adapter.allowed)).encode() for row in rows_of(path))
    if log:
        assert same(read(log), expected(name, is_hashed=False))
        array = b"[" + log.replace(b"\n", b",") + b"]"
        assert same(read(array), expected(name, is_hashed=False))


@each_sample
def test_rows_are_read_by_their_own_adapter_whatever_the_order_of_their_members(
    name: str, path: Path
) -> None:
    for document in rows_of(path):
        for members in (list(document.items()), list(reversed(document.items()))):
            adapter, found = read_row(Row(dict(members)), {})
            if any(seen != NO_USAGE for seen in found):
                assert adapter is adapters()[name]


def strings_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from strings_of(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], text: Any) -> Any:
    if not path:
        return text
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], text)
    return copy


@pytest.mark.parametrize(
    "canary",
    [
        "CANARY the customer said",
        pytest.param("CANARY@example.com", marks=pytest.mark.stress),
        pytest.param("(CANARY)\n", marks=pytest.mark.stress),
    ],
)
@each_sample
def test_a_canary_in_any_string_reaches_no_output(name: str, path: Path, canary: str) -> None:
    for document in rows_of(path):
        for place in strings_of(document):
            log = json.dumps(replaced(document, place, canary)).encode()
            for way in (scrubbed, canonical):
                assert b"CANARY" not in outcome(way, log), place


ODD: Final[tuple[Any, ...]] = (None, -1, 10**13, 1e400, True, "x", "7", [], [7], {}, {"x": "y"})


@each_sample
def test_odd_values_anywhere_give_valid_records_or_an_error_of_ours(name: str, path: Path) -> None:
    places = [(row, place) for row in rows_of(path)[:3] for place in leaves_of(row)]
    for number, (row, place) in enumerate(places):
        log = json.dumps(replaced(row, place, ODD[number % len(ODD)])).encode()
        for way in (scrubbed, canonical):
            try:
                written = way(log)
            except DetectorError:
                continue
            for line in written.splitlines() if way is canonical else ():
                msgspec.json.decode(line, type=UsageRecordV2)
            assert written == b"" or read(written)


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from leaves_of(inner, (*path, key))


def canonical(log: bytes) -> bytes:
    return encode_records(read(log))


def outcome(way: Callable[[bytes], bytes], log: bytes) -> bytes:
    try:
        return way(log)
    except Exception as error:
        return str(error).encode()
