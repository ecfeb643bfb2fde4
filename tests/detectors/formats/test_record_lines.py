"""Lines of usage records, as the API takes them."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import detectors
from detectors.errors import ContractError
from detectors.formats.detection import DIALECTS, detect
from detectors.formats.json_logs.records import RECORDS
from detectors.frames import ranges, sources
from tests.cases import each_case

RECORD: dict[str, Any] = {
    "ts": "2026-10-05T09:00:00Z",
    "provider": "openai",
    "model": "gpt-5.5",
    "prompt_tokens": 1_200,
    "completion_tokens": 85,
}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def test_lines_and_an_array_are_the_same_as_the_records_themselves(tmp_path: Path) -> None:
    records = [RECORD | {"prompt_tokens": count, "tag": "a"} for count in range(50)]
    second = [*records, RECORD | {"service_tier": "flex", "reasoning_tokens": 9}]
    for some in (records, second):
        expected = detectors.read(some)
        lines = write(tmp_path / "records.jsonl", *some)
        assert detectors.read(lines).frame.equals(expected.frame)
        array = BytesIO(json.dumps(some).encode())
        assert detectors.read(array).frame.equals(expected.frame)


def test_a_large_file_is_read_by_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "records.jsonl", *[RECORD | {"tag": str(n)} for n in range(200)])
    monkeypatch.setattr(sources, "PARALLEL_BYTES", 4_096)
    monkeypatch.setattr(sources, "RANGE_BYTES", 4_096)
    assert path.stat().st_size < ranges.RANGE_BYTES
    assert detectors.read(path, processes=2).frame["tag"].to_list() == [str(n) for n in range(200)]


@each_case("name", ["messages", "usage", "cost"])
def test_a_field_that_records_do_not_have_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "records.jsonl", RECORD, RECORD | {name: "CANARY"})
    with pytest.raises(ContractError, match=rf"\({name}\) on line 2") as caught:
        detectors.read(path)
    assert "CANARY" not in str(caught.value)


def test_a_line_of_a_provider_is_judged_as_a_record(tmp_path: Path) -> None:
    other = {"model": "gpt-5.5", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    with pytest.raises(ContractError, match=r"\(usage\) on line 2"):
        detectors.read(write(tmp_path / "records.jsonl", RECORD, other))
    assert detect(json.dumps(other).encode(), is_whole=True).dialect in DIALECTS
    assert detect(json.dumps(RECORD).encode(), is_whole=True).dialect is RECORDS
