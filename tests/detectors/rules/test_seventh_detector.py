"""A new detector is one file and one line: every surface takes the rest from there."""

import csv
import filecmp
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from detectors.rules import DETECTORS
from detectors.wording.names import introduce_detectors, read_introduction
from tests.detectors.docs import HEADINGS, TABLES, missing_from_docs, page_path, table_row
from tests.detectors.rules.seventh import long_answers
from tests.detectors.rules.seventh.library import (
    DETECTOR_FILE,
    LOG,
    NEW_LINE,
    ROOT,
    make_library,
    run,
)

DETECTOR = long_answers.DETECTOR
INTRODUCTION = read_introduction(str(long_answers.__doc__))
SAVINGS = "$98"  # a quarter of $5.45 in 10 hours, 72 times
FIX = 'Request shorter answers on "essays": 40 calls to gpt-5.4 returned 9,000 tokens (median).'
FORMULA = (
    "25% × $5.45, the cost of 40 calls = $1.36 in 10 hours; × 72 to project to 30 days = "
    "$98.10/month."
)
IN_A_NOTEBOOK = f"""
import detectors
report = detectors.audit("{LOG}")
print(repr(report.findings[0]), report._repr_html_(), report.findings[0]._repr_html_())
print(report.explain("d7-001"), report.compare(report))
"""
INTRODUCE = """
from detectors.wording.names import introduce_detectors
print(*introduce_detectors().items(), sep="\\n")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("seventh"))


@pytest.fixture(scope="module")
def terminal(library: Path) -> str:
    """Run `audit` with every output; return what it prints."""
    outputs = ("--json", "report.json", "--html", "report.html", "--csv", "findings.csv")
    return run(library, "-m", "detectors", "audit", LOG, *outputs)


@pytest.fixture(scope="module")
def document(library: Path, terminal: str) -> dict[str, Any]:
    assert terminal
    return dict(json.loads((library / "report.json").read_bytes()))


def test_the_library_differs_in_one_file_and_one_line(library: Path) -> None:
    differences = list(_differences(filecmp.dircmp(ROOT / "detectors", library / "detectors")))
    assert differences == [("changed", "__init__.py"), ("added", DETECTOR_FILE.name)]
    ours = (ROOT / "detectors/rules/__init__.py").read_text().splitlines(keepends=True)
    theirs = (library / "detectors/rules/__init__.py").read_text().splitlines(keepends=True)
    assert [line for line in theirs if line not in ours] == [NEW_LINE]
    assert len(theirs) == len(ours) + 1


def _differences(compared: filecmp.dircmp[str]) -> Any:
    yield from (("changed", name) for name in compared.diff_files)
    yield from (("removed", name) for name in compared.left_only if name != "__pycache__")
    yield from (("added", name) for name in compared.right_only)
    for folder in compared.subdirs.values():
        yield from _differences(folder)


def test_the_terminal_shows_it(terminal: str) -> None:
    words = " ".join(terminal.split())
    for part in ("Long answers", "essays", SAVINGS, FIX):
        assert part in words
    assert "d7_" not in words


def test_the_json_document_has_its_finding_and_its_definition(document: dict[str, Any]) -> None:
    (finding,) = document["findings"]
    assert (finding["id"], finding["detector"]) == ("d7-001", "d7_long_answers")
    assert (finding["fix"], finding["formula"]) == (FIX, FORMULA)
    assert document["thresholds"]["d7_min_calls"] == 5
    assert document["savings_by_detector"][-1]["detector"] == "d7_long_answers"
    method = document["methods"][-1]
    assert (method["detector"], method["title"]) == ("d7_long_answers", "Long answers")
    assert [column["label"] for column in method["evidence"]] == [
        "Time", "Answer length", "Cost", "Potential savings",
    ]  # fmt: skip


def test_pages_tables_and_notebooks_show_its_finding(library: Path, terminal: str) -> None:
    assert terminal
    page = (library / "report.html").read_text("utf-8")
    for part in ("Long answers", "Answer length", "9,000", FORMULA, "Request a summary"):
        assert part in page
    assert "Prompt tokens" not in page  # not a column of this detector
    # The csv has its finding.
    assert terminal
    (row,) = csv.DictReader(io.StringIO((library / "findings.csv").read_text("utf-8")))
    assert (row["id"], row["detector"], row["fix"]) == ("d7-001", "d7_long_answers", FIX)


def test_a_notebook_shows_and_explains_it(library: Path) -> None:
    shown = run(library, "-c", IN_A_NOTEBOOK)
    for part in ("<Finding d7-001 Long answers on", "Answer length", FORMULA, "Rule: At least 5"):
        assert part in shown
    assert "d7_min_calls = 5" in shown
    assert "Unchanged" in shown


def test_pages_that_list_the_detectors_list_it(library: Path) -> None:
    introduced = run(library, "-c", INTRODUCE).splitlines()
    assert introduced[:-1] == [str(each) for each in introduce_detectors().items()]
    assert introduced[-1] == str((DETECTOR.id, INTRODUCTION))
    assert len(introduced) == len(DETECTORS) + 1


def test_the_docs_lack_it_until_they_describe_it(tmp_path: Path) -> None:
    (tmp_path / "docs" / "detectors").mkdir(parents=True)
    for table in TABLES:
        shutil.copy(ROOT / table, tmp_path / table)
    missing = missing_from_docs(DETECTOR, INTRODUCTION, tmp_path)
    assert len(missing) == 1 + len(HEADINGS) + len(DETECTOR.thresholds) + len(TABLES)
    thresholds = ", ".join(f"`{name}`" for name in DETECTOR.thresholds)
    sections = "".join(f"\n## {heading}\n\n{thresholds}\n" for heading in HEADINGS)
    page = f"# {INTRODUCTION.name}\n\n`{DETECTOR.id}`\n{sections}"
    (tmp_path / page_path(DETECTOR.id)).write_text(page)
    assert missing_from_docs(DETECTOR, INTRODUCTION, tmp_path) == list(TABLES)
    for table in TABLES:
        with (tmp_path / table).open("a") as file:
            file.write(table_row(DETECTOR.id, INTRODUCTION))
    assert missing_from_docs(DETECTOR, INTRODUCTION, tmp_path) == []
