"""The pytest fixture of the client's wheel, in a test suite of a user's."""

import sys
from pathlib import Path

from tests.client.environments import run

SUITE = """
import os
import pytest
import tallystick

def ask():
    tallystick.record(model="gpt-5.5", prompt_tokens=7, completion_tokens=1, tag="support")

def test_records_are_seen(tallystick_records):
    assert tallystick_records() == []
    ask()
    (record,) = tallystick_records()
    assert (record["tag"], record["prompt_tokens"]) == ("support", 7)
    ask()
    assert len(tallystick_records()) == 2

def test_the_program_can_start_it_with_its_own_arguments(tallystick_records):
    tallystick.close()
    tallystick.init(environment="test")
    ask()
    assert tallystick_records()[0]["environment"] == "test"

def test_a_field_outside_the_schema_fails(tallystick_records):
    ask()
    tallystick_records()
    line = tallystick_records.file.read_text()
    tallystick_records.file.write_text(line.replace('"tag"', '"prompt":"the canary sang","tag"'))

def test_nothing_is_left_on():
    assert tallystick.stats() == {}
"""


def test_a_test_fails_for_anything_outside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(SUITE)
    options = ("-p", "tallystick.testing", "-p", "no:cacheprovider", "-q", "--rootdir", tmp_path)
    program = f"""
import pytest
status = pytest.main([{", ".join(repr(str(each)) for each in (*options, tmp_path))}])
assert status == 1, status
"""
    printed = run(sys.executable, "-c", program, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "4 passed, 1 error" in printed
    assert "would send record 1, but it has a field that is not in the schema" in printed
    assert "the canary sang" not in printed
