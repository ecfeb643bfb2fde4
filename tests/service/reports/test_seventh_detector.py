"""The service shows a detector that it does not have, from the report document alone."""

from collections.abc import Callable
from io import BytesIO

import pytest
from flask.testing import FlaskClient

from detectors.contract import Report
from detectors.wording.figures import usd
from detectors.wording.impact import impact
from detectors.wording.names import introduce_detectors
from service.mail.report_ready import describe_finding
from tests.detectors.rules.seventh.library import LOG, make_library, run
from tests.lazily import pypdf


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    library = make_library(tmp_path_factory.mktemp("seventh"))
    run(library, "-m", "detectors", "audit", LOG, "--json", "report.json")
    return Report.from_json((library / "report.json").read_bytes())


def test_the_service_has_no_such_detector() -> None:
    assert "d7_long_answers" not in introduce_detectors()


def test_every_form_of_the_report_shows_its_finding(
    client: FlaskClient, publish: Callable[[Report], str], report: Report
) -> None:
    address = publish(report)
    page = client.get(address).text
    savings = usd(report.findings[0].monthly_cost_impact_usd)
    for part in ("Long answers", "essays", savings, "Request a summary"):
        assert part in page
    finding = client.get(f"{address}?finding=d7-001").text
    assert '<th scope="col" class="num">Answer length</th>' in finding
    assert '<td class="num" data-label="Answer length">9,000</td>' in finding
    assert "Prompt tokens" not in finding
    savings = impact(report.findings[0], report.audit)
    pdf = pypdf.PdfReader(BytesIO(client.get(f"{address}/pdf").data))
    text = " ".join(" ".join(page.extract_text() for page in pdf.pages).split())
    for part in ("Long answers", "essays", savings):
        assert part in text
    # The downloads have its id.
    assert b"d7-001,d7_long_answers," in client.get(f"{address}/findings.csv").data
    assert b'"detector":"d7_long_answers"' in client.get(f"{address}/json").data
    # A mail names it.
    assert describe_finding(report.findings[0], report.methods)["what"] == "Long answers"
