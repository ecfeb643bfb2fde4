"""What is promised has a test at full count, which has time on a slow machine."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.worker.support.promises import STRESS_SECONDS

ROOT: Final = Path(__file__).parents[2]
# A test's line in the table of `make stress` begins with the number of its promise.
_LINE: Final = re.compile(r'(?:\bnote\(\s*|\bname = )f?"(\d{1,2}) [a-z{0-9]')


def test_the_guide_names_the_tests_of_each_promise() -> None:
    guide = (ROOT / "docs" / "testing.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+? \| (.+?) \| .+? \|$", guide, re.MULTILINE)
    named = {int(number): set(re.findall(r"`(\S+\.py)`", tests)) for number, tests in rows}
    assert list(named) == list(range(1, len(rows) + 1))
    tests = ROOT / "tests"
    for number, paths in named.items():
        assert [path for path in paths if not (tests / path).is_file()] == [], number
    written = {
        (int(number), str(path.relative_to(tests)))
        for path in tests.rglob("test_*.py")
        for number in _LINE.findall(path.read_text())
    }
    assert len(written) > len(rows)
    assert {(number, path) for number, path in written if path not in named[number]} == set()


@pytest.mark.stress
def test_every_stress_test_may_take_half_an_hour(request: pytest.FixtureRequest) -> None:
    limits = {
        item.nodeid: marker.args[0]
        for item in request.session.items
        if item.get_closest_marker("stress") and (marker := item.get_closest_marker("timeout"))
    }
    stressed = [item for item in request.session.items if item.get_closest_marker("stress")]
    assert len(limits) == len(stressed)
    assert {name for name, seconds in limits.items() if seconds < STRESS_SECONDS} == set()
