"""tallystick demo: what it sends and prints, and its errors.

test_up_restarts.py runs the command until Ctrl-C.
"""

import re
from pathlib import Path

import pytest
import requests

from detectors.contract import MAX_BATCH_RECORDS
from service.cli import demo
from service.cli.demo import read_sample
from tests.running import Up


def test_the_sample_log_makes_one_whole_report() -> None:
    records = read_sample()
    assert 4_000 < len(records) <= MAX_BATCH_RECORDS


def test_it_prints_five_findings_and_saves_its_report(
    up: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.show(up.service(), tmp_path, read_sample(), is_serving=True)
    printed = capsys.readouterr().out
    assert "8 more findings" in printed
    assert max(map(len, printed.partition("Report: ")[0].splitlines())) <= 100
    [saved] = re.findall(r"^Report: (.+)$", printed, re.MULTILINE)
    assert Path(saved).read_text().startswith("<!doctype html>")
    [link] = re.findall(r"^Online: (.+)$", printed, re.MULTILINE)
    assert requests.get(link, timeout=60).status_code == 200
