"""A pytest fixture: what a program would send, and a failure for anything outside the schema.

pytest loads it where the client is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.sending.schema import find_problem, read_line

_FLUSH_SECONDS = 10.0


class SentRecords:
    """The records of a test, as they would have been sent."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self) -> list[dict[str, Any]]:
        """Return all records so far; fail if one is outside the schema."""
        tallystick.flush(_FLUSH_SECONDS)
        lines = self.file.read_text("ascii").splitlines() if self.file.exists() else []
        records = []
        for number, line in enumerate(lines, start=1):
            record = read_line(line)
            if record is None:
                import json

                try:
                    problem = find_problem(json.loads(line)) or "it repeats a field"
                except ValueError:
                    problem = "it is not JSON"
                message = f"tallystick would send record {number}, but {problem}"
                raise pytest.fail.Exception(message, pytrace=False)
            records.append(record)
        return records


@pytest.fixture
def tallystick_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SentRecords]:
    """Capture the calls of a test to a file; calling the fixture returns their records.

    The test fails if a record has anything that the schema does not have. A program that calls
    `init()` later changes nothing; `tallystick.close()` first lets it use its own arguments.
    """
    file = tmp_path / "tallystick-records.jsonl"
    monkeypatch.setenv("SERVICE_DSN", file.as_uri())
    tallystick.close(0)
    tallystick.init()
    records = SentRecords(file)
    try:
        yield records
        records()
    finally:
        tallystick.close(_FLUSH_SECONDS)
