"""The notebook to start from: it runs, shows what it promises, and is kept without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOK = EXAMPLES / "audit_your_logs.ipynb"


@pytest.fixture(scope="module")
def executed() -> Any:
    """Run by a kernel of its own in the folder of the sample log, as a reader runs it."""
    # At the top, each test process would spend seconds on them at collection.
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}})
    return client.execute()


def _shown(notebook: Any, kind: str) -> list[str]:
    """What the cells show of one kind: a media type, or what they print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    if kind == "stream":
        return [output["text"] for output in outputs if output["output_type"] == "stream"]
    return [output["data"][kind] for output in outputs if kind in output.get("data", ())]


@pytest.mark.stress
def test_every_cell_runs_without_a_warning(executed: Any) -> None:
    """By default, the examples of the README run, and `test_showing.py` shows reports."""
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert not [one for one in outputs if one["output_type"] == "error"]
    assert not [one for one in outputs if one.get("name") == "stderr"]


@pytest.mark.stress
def test_reports_findings_and_comparisons_show_themselves(executed: Any) -> None:
    """By default, the examples of the README run, and `test_showing.py` shows reports."""
    pages = _shown(executed, "text/html")
    report, finding, frame, comparison = pages
    assert report.count("<svg") == 1
    assert "You spend about $" in report
    assert "How we calculated this" in finding
    assert "monthly_cost_impact_usd" in frame
    assert "all figures are per month" in comparison


@pytest.mark.stress
def test_its_output_has_the_numbers(executed: Any) -> None:
    """By default, the examples of the README run, and `test_showing.py` shows reports."""
    printed = "".join(_shown(executed, "stream"))
    assert "openai: 12% off from 2026-01-01 until 2026-12-31" in printed
    assert "d2_cache_seconds = 300" in printed
    assert "avoidable spend: $" in printed


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert {cell["cell_type"] for cell in cells} == {"code", "markdown"}
    for cell in cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
