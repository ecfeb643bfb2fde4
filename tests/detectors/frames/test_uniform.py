"""Lines of one form, read together: the exact reader's calls, or none at all."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import strategies as st

from detectors.engine import with_texts
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.lines import parse_objects
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.text.splitting import lines_of
from detectors.frames import UsageLog, place, range_workers, read, sources
from detectors.frames.uniform import UniformReader, columns, reading
from detectors.frames.usage_log import from_columns
from tests.cases import data_of, each_case
from tests.exploration import explored
from tests.worker.support.promises import sampled

LINE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_767_225_600,
    "model": "gpt-5.4",
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
    "service_tier": None,
    "tag": "a:b, {c} [d] é",
    "prefix_hashes": ["ab" * 8, "01" * 8, "c2" * 8],
    "session_id": "tag",
    "latency_ms": 12.5,
    "prefix_hash": "aB" * 32,
}
COMPACT, SPACED = (",", ":"), (", ", ": ")
CHANGES = data_of(__file__)["changes"]


def joined(lines: list[str]) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def exactly(text: bytes) -> pl.DataFrame | None:
    """Return the calls of the exact reader; None if it finds anything wrong."""
    parsed = parse_objects(lines_of(text), 1, OPENAI)
    is_fine = not parsed.invalid and not parsed.unknown_fields
    return from_columns(parsed.columns) if is_fine and all(lines_of(text)) else None


def check(text: bytes) -> None:
    together = UniformReader().read(text, OPENAI)
    if together is not None:
        expected = exactly(text)
        assert expected is not None
        assert together.schema == expected.schema
        assert together.equals(expected)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Lines of one form, of which some are changed once or twice, first or last."""
    line = json.dumps(LINE, separators=COMPACT, ensure_ascii=False)
    lines = [line.replace("-1", f"-{n}") for n in range(draw(st.integers(1, 60)))]
    for _ in range(draw(st.integers(1, 3))):
        old, new = draw(st.sampled_from(CHANGES))
        from_end = draw(st.booleans())
        for number in draw(st.sets(st.integers(0, len(lines) - 1), min_size=1, max_size=60)):
            parts = lines[number].rsplit(old, 1) if from_end else lines[number].split(old, 1)
            lines[number] = new.join(parts)
    return joined(lines)


@explored(1_000, logs())
def test_lines_read_together_are_those_of_the_exact_reader(text: bytes) -> None:
    check(text)


@each_case("old", sorted({old for old, _ in CHANGES}))
def test_a_change_in_one_line_or_in_all_is_never_read_otherwise(old: str) -> None:
    line = json.dumps(LINE, separators=COMPACT, ensure_ascii=False)
    for new in [new for each, new in CHANGES if each == old]:
        changed = line.replace(old, new, 1)
        check(joined([changed] * 3))
        check(joined([line] * 50 + [changed] + [line]))


def without(*names: str) -> list[str]:
    kept = {name: value for name, value in LINE.items() if name not in names}
    return [json.dumps(kept, ensure_ascii=False)]


def with_levels(*levels: int) -> list[str]:
    hashes = LINE["prefix_hashes"] * 5
    lines = [{**LINE, "prefix_hashes": hashes[:level] or None} for level in levels]
    return [json.dumps(line, ensure_ascii=False) for line in lines]


READ = {
    "compact": [json.dumps(LINE, separators=COMPACT, ensure_ascii=False)],
    "absent keys": without() + without("tag") + without("prefix_hash", "session_id"),
    "a rare key": without("tag") * 500 + without() + without("tag") * 30,
    "null or not": without() + [without()[0].replace("12.5", "null")],
    "no labels": without("tag", "prefix_hash", "session_id", "service_tier"),
    "as many levels": with_levels(3),
    "more or fewer levels": with_levels(3, 1, 8, 3, 13, 2),
    "levels or null": with_levels(5, 0, 0, 4),
    "levels or none": with_levels(2, 6) + without("prefix_hashes") + with_levels(7),
    "a rare level": with_levels(3) * 500 + with_levels(9) + with_levels(3) * 30,
    "whole and broken": without() + [without()[0].replace("12.5", "12")],
}


@each_case("name", sorted(READ))
def test_ordinary_lines_are_read_together(name: str) -> None:
    read_together(UniformReader(), joined(READ[name]))


def read_together(reader: UniformReader, text: bytes) -> None:
    together, expected = reader.read(text, OPENAI), exactly(text)
    assert together is not None
    assert expected is not None
    assert together.equals(expected)
    short = reader.read(text, OPENAI, has_categories=True)
    assert short is not None
    assert with_texts(short).equals(expected)


def test_labels_that_no_line_has_are_categories() -> None:
    text = joined(without("tag", "prefix_hash", "service_tier") * 3)
    calls = UniformReader().read(text, OPENAI, has_categories=True)
    assert calls is not None
    categories = {name for name, kind in calls.schema.items() if kind == pl.Categorical}
    absent = {"provider", "endpoint", "tag", "prefix_hash", "service_tier"}
    assert categories == absent | {"model", "session_id"}


def test_the_form_of_one_part_is_known_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = UniformReader()
    read_together(reader, joined(READ["a rare key"]))
    monkeypatch.setattr(reading, "_find_form", None)
    for name in ("a rare key", "absent keys"):
        read_together(reader, joined(READ[name]))


def test_parts_of_other_programs_are_read_together_too() -> None:
    reader, other = UniformReader(), dict(reversed(LINE.items()))
    for line in (LINE, other, {**other, "region": "eu"}, LINE):
        for separators in (COMPACT, SPACED):
            text = joined([json.dumps(line, separators=separators)] * 30).replace(b"\\u00e9", b"e")
            read_together(reader, text)


@pytest.mark.parametrize("others", [0, 500])
def test_a_list_that_is_longer_than_there_are_levels_is_left_to_the_exact_reader(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Each text would be two columns of all lines, which is gigabytes for a list of thousands."""
    sizes = set[int]()

    def noted(text: bytes, keys: Any, separators: Any) -> Any:
        sizes.update(size for key in keys for size in key.sizes)
        return columns.take(text, keys, separators)

    monkeypatch.setattr(reading, "take", noted)
    long = json.dumps({**LINE, "prefix_hashes": ["ab" * 8] * 14}, ensure_ascii=False)
    assert UniformReader().read(joined(with_levels(3) * others + [long]), OPENAI) is None
    assert sizes == ({3} if others else set())


def test_other_dialects_are_left_to_the_exact_reader() -> None:
    assert UniformReader().read(joined(without()), ANTHROPIC) is None


@pytest.mark.parametrize("odd", sampled([range(0, 20, 2), (), (3,), range(20)], 4))
def test_a_file_is_read_alike_whichever_of_its_ranges_have_one_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Any
) -> None:
    for name in ("PARALLEL_BYTES", "UNIFORM_BYTES", "RANGE_BYTES"):
        monkeypatch.setattr(sources, name, 4_096)
    monkeypatch.setattr(range_workers, "_MOST_LOST", 3)
    lines = [json.dumps({**LINE, "id": f"id-{n:04}"}, ensure_ascii=False) for n in range(200)]
    for part in odd:
        lines[part * 10] = lines[part * 10].replace('"total_tokens": 14', '"total_tokens": -1')
    path = tmp_path / "log.jsonl"
    path.write_bytes(joined(lines))
    with path.open("rb") as file:
        expected = read(file)
    heard: list[int] = []
    for processes in (1, 2):
        log = read(path, processes=processes, progress=lambda done, _: heard.append(done))
        assert is_same(log, expected)
    assert expected.invalid.count == len(odd)
    calls = place(path).calls.scan().collect()
    assert calls.schema["tag"] == (pl.String if odd else pl.Categorical)
    assert with_texts(calls).equals(place(expected).calls.scan().collect())


def is_same(log: UsageLog, expected: UsageLog) -> bool:
    has_same_rows = log.rows == expected.rows and log.invalid == expected.invalid
    return has_same_rows and log.frame.equals(expected.frame)
