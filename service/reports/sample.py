"""The report of the sample log. `make sample` writes it next to this file."""

from functools import cache
from pathlib import Path

from detectors.charts import Chart, savings_waterfall
from detectors.contract import Report


@cache
def get_sample_report() -> bytes:
    return (Path(__file__).parent / "sample-report.json").read_bytes()


@cache
def get_sample_chart() -> Chart:
    """Return the waterfall chart of the sample report."""
    return savings_waterfall(Report.from_json(get_sample_report()))
