"""A chart added to the list appears on every surface of a report, without another change."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import pytest
from flask.testing import FlaskClient

from detectors import charts
from detectors.charts import Chart
from detectors.contract import Report
from detectors.html.page import print_page
from service.reports.pdf import print_pdf
from tests.lazily import pypdf
from tests.service.support.scaled_reports import make_scaled_report

TITLE = "Spend by hour"


def _spend_by_hour(report: Report) -> Chart:
    return replace(charts.spend_by_day(report), name="hours", title=TITLE)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(charts, "REPORT_CHARTS", (*charts.REPORT_CHARTS, _spend_by_hour))
    return make_scaled_report(findings=3)


def test_the_report_page_shows_it(
    client: FlaskClient, publish: Callable[[Report], str], report: Report
) -> None:
    assert f"<figcaption>{TITLE}</figcaption>" in client.get(publish(report)).get_data(as_text=True)


def test_the_notebook_shows_it(report: Report) -> None:
    assert f"<figcaption>{TITLE}</figcaption>" in print_page(report)


def test_the_pdf_shows_it(report: Report) -> None:
    pages = pypdf.PdfReader(BytesIO(print_pdf(report.to_json()))).pages
    text = "\n".join(page.extract_text() for page in pages)
    assert TITLE in text
    assert "Data quality" in text
