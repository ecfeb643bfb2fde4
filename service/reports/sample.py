"""The report of the sample log. `make sample` writes it next to this file."""

from functools import cache
from pathlib import Path

from detectors.charts import Chart, savings_waterfall
from detectors.contract import Report
from detectors.wording.headline import sentence


@cache
def get_sample_report() -> bytes:
    return (Path(__file__).parent / "sample-report.json").read_bytes()


@cache
def get_sample_summary() -> tuple[str, Chart]:
    """Return the headline and the waterfall chart of the sample report."""
    report = Report.from_json(get_sample_report())
    return sentence(report), savings_waterfall(report)
