"""The examples in docstrings run and print what they say, beside a log and a folder of raw ones."""

import doctest
import gzip
import shutil
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MODULES = ("", ".report", ".prices.book", ".report.result.document", ".scrub")


@pytest.mark.parametrize("name", MODULES)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLES / "sample-usage.jsonl", tmp_path / "usage.jsonl")
    shutil.copytree(EXAMPLES / "raw-logs", tmp_path / "sessions")
    raw = next((EXAMPLES / "raw-logs").glob("*.jsonl")).read_bytes()
    (tmp_path / "requests.jsonl.gz").write_bytes(gzip.compress(raw))
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(import_module(f"detectors{name}"))
    assert result.attempted > 0
    assert result.failed == 0
