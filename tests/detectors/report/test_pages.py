"""The detectors' pages: their examples run and print what they say, and their arithmetic holds."""

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from detectors.contract import Method
from detectors.rules.methods import METHODS
from tests.cases import each_case
from tests.worker.support.promises import sampled

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "detectors"
PAGES = sorted(DOCS.glob("*.md"))
# Amounts multiplied, divided, added and subtracted, and what that is said to be, perhaps by steps.
_TERMS = r"\$?[\d,.]*\d(?: [x/+-] \$?[\d,.]*\d)*"
SUM = re.compile(rf"{_TERMS}(?: = {_TERMS})+")
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
SECTIONS = {"costs_you": "Costs you", "do_instead": "Do instead"}


def _example(page: Path) -> str:
    """The page's worked example."""
    return page.read_text("utf-8").partition("## Worked example\n")[2].partition("\n## ")[0]


def _prose(page: Path) -> str:
    """The same without its program, in one line."""
    return " ".join(EXAMPLE.sub("", _example(page)).split())


def _value(expression: str) -> Decimal:
    """The amounts multiplied and divided from the left, those results added and subtracted."""
    total, term, sign, operator = Decimal(0), Decimal(1), 1, "x"
    for token in expression.replace("$", "").replace(",", "").split():
        if token in ("x", "/"):
            operator = token
        elif token in ("+", "-"):
            total, term, operator = total + sign * term, Decimal(1), "x"
            sign = 1 if token == "+" else -1
        else:
            term = term * Decimal(token) if operator == "x" else term / Decimal(token)
    return total + sign * term


@each_case("page", PAGES)
def test_the_examples_arithmetic_holds(page: Path) -> None:
    sums = SUM.findall(_prose(page))
    assert sums
    for steps in sums:
        assert len(set(map(_value, steps.split(" = ")))) == 1, steps


def test_wrong_arithmetic_would_be_noticed() -> None:
    [steps] = SUM.findall("It costs 1,000 x $2.50 / 1,000,000 - 2 x $1 = $0.0025 - $2 = $0.0025.")
    values = [_value(step) for step in steps.split(" = ")]
    assert values == [Decimal("-1.9975"), Decimal("-1.9975"), Decimal("0.0025")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_prints_what_the_page_says_and_the_dollars_that_it_calculates(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [(program, printed)] = EXAMPLE.findall(_example(page))
    monkeypatch.chdir(ROOT)
    exec(program, {"__name__": "__main__"})
    assert capsys.readouterr().out == printed
    # Each amount after a count of calls stands in the prose, too.
    found = re.findall(r"^[a-z_]+(?: [a-z_]+)? \d+ ([\d.]+)$", printed, re.MULTILINE)
    assert found
    for amount in filter(None, map(Decimal, found)):
        assert f"${amount.normalize():f}" in _prose(page), amount


@pytest.mark.parametrize("page", sampled(PAGES, len(PAGES)), ids=lambda page: page.stem)
def test_the_example_runs_in_an_interpreter_of_its_own(page: Path) -> None:
    [(program, printed)] = EXAMPLE.findall(_example(page))
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == printed


@each_case("method", METHODS)
def test_the_report_prints_the_pages_own_words(method: Method) -> None:
    slug = method.detector.partition("_")[2]
    page = (DOCS / f"{slug}.md").read_text("utf-8")
    for field, heading in SECTIONS.items():
        section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        words = " ".join(re.sub(r"[`*<>]", "", section).split())
        assert getattr(method, field) in words, heading


def test_every_page_is_that_of_a_detector() -> None:
    assert [page.stem for page in PAGES] == sorted(m.detector.partition("_")[2] for m in METHODS)
