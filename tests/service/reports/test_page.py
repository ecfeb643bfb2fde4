"""The report page in every shape: dollars, labels, size and other formats."""

import codecs
import csv
import io
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from detectors.contract import Finding, Report
from detectors.wording.figures import usd, whole_usd
from detectors.wording.labels import inert
from service.reports.sample import get_sample_report
from tests.cases import each_case
from tests.service.support.scaled_reports import (
    HOSTILE_LABELS,
    SHAPES,
    make_hostile_report,
    make_scaled_report,
)
from tests.worker.support.promises import sampled

Publish = Callable[[Report], str]
FORMS = ("", "/pdf", "/json", "/findings.csv")


class _Page(HTMLParser):
    """The text of each finding, and every start tag, as a browser takes them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.findings: dict[str, str] = {}
        self._current = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self.tags.append((tag, named))
        if tag in {"article", "tr", "h2"}:
            self._current = named.get("id") or ""

    def handle_data(self, data: str) -> None:
        if re.fullmatch(r"d\d-\d+", self._current):
            self.findings[self._current] = self.findings.get(self._current, "") + data


def test_what_to_do_is_shown_whole_and_only_the_formula_is_folded(
    client: FlaskClient, publish: Publish
) -> None:
    report = make_hostile_report()
    fix = "Stop בוט Inc. bot from retrying. Look for retries without a pause."
    finding = replace(report.findings[0], fix=fix, route="בוט Inc. bot", formula="1 × $2")
    page = client.get(publish(replace(report, findings=(finding,)))).get_data(as_text=True)
    article = page[page.index('<article class="finding') : page.index("</article>")]
    [shown] = re.findall('<p class="fix anywhere">(.*?)</p>', article)
    assert shown == (
        "Stop <bdi>בוט Inc. bot</bdi> from retrying. Look for retries without a pause."
    )
    [folded] = re.findall('<details class="how anywhere">(.*?)</details>', article, re.DOTALL)
    shown = " ".join(re.sub("<.*?>", " ", folded).split())
    assert shown == "How we calculated this 1 × $2"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_dollars_of_each_finding_are_those_of_the_document(
    client: FlaskClient, publish: Publish, shape: str
) -> None:
    report = SHAPES[shape]()
    page = _Page(client.get(publish(report)).get_data(as_text=True))
    assert list(page.findings) == [finding.id for finding in report.findings]
    for finding in report.findings:
        assert whole_usd(finding.monthly_cost_impact_usd) in page.findings[finding.id]


@pytest.mark.parametrize("shape", sampled(SHAPES, 3))
def test_the_totals_and_the_charts_are_those_of_the_document(
    client: FlaskClient, publish: Publish, shape: str
) -> None:
    report = SHAPES[shape]()
    text = unescape(client.get(publish(report)).get_data(as_text=True))
    audit = report.audit
    amounts = [audit.total_spend_usd]
    amounts += [one.spend_usd for one in report.spend_by_model[:10]]
    amounts += [one.spend_usd for one in report.spend_by_route[:10]]
    assert [one for one in amounts if usd(one) not in text] == []
    projected = [audit.projected_spend_usd]
    projected += [one.composed_usd for one in report.savings_by_detector if one.composed_usd]
    assert [one for one in projected if whole_usd(one) not in text] == []


@pytest.mark.parametrize("shape", sampled(SHAPES, 3))
def test_a_page_stays_small_and_brings_no_style_or_script_of_its_own(
    client: FlaskClient, publish: Publish, shape: str
) -> None:
    response = client.get(publish(SHAPES[shape]()))
    assert len(response.data) <= 150_000
    for tag, attributes in _Page(response.get_data(as_text=True)).tags:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "style"
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/static/")


def test_hostile_labels_are_inert_and_readable(client: FlaskClient, publish: Publish) -> None:
    report = make_hostile_report()
    source = client.get(publish(report)).get_data(as_text=True)
    tags = {tag for tag, _ in _Page(source).tags}
    assert "\u202e" not in source
    assert "alert(1)" in source
    assert not tags & {"iframe", "object", "embed", "img"}
    for label in HOSTILE_LABELS:
        assert inert(label) in unescape(source).replace("<bdi>", "").replace("</bdi>", ""), label
    assert "{{ 7*7 }}" in source


@pytest.mark.parametrize("label", sampled(HOSTILE_LABELS, 2))
def test_cells_of_the_table_hold_labels_and_no_formula(
    client: FlaskClient, publish: Publish, label: str
) -> None:
    path = publish(make_scaled_report(findings=3, labels=(label,)))
    response = client.get(f"{path}/findings.csv")
    assert response.mimetype == "text/csv"
    rows = _read_table(response.data)
    assert len(rows) == 3
    assert rows[0]["route"].removeprefix("'") == label
    for cell in (cell for row in rows for cell in row.values()):
        assert not re.match(r"[\s\u200b-\u200f\u202a-\u202e]*[=+\-@]", cell)


def _read_table(content: bytes) -> list[dict[str, str]]:
    """As a spreadsheet program does, which takes the mark at the beginning for UTF-8."""
    assert content.startswith(codecs.BOM_UTF8)
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))


def test_the_table_holds_every_finding_in_full(client: FlaskClient, publish: Publish) -> None:
    report = make_scaled_report(findings=500)
    rows = _read_table(client.get(f"{publish(report)}/findings.csv").data)
    assert [row["id"] for row in rows] == [one.id for one in report.findings]
    assert [row["monthly_cost_impact_usd"] for row in rows] == [
        str(one.monthly_cost_impact_usd) for one in report.findings
    ]
    assert rows[0]["formula"] == report.findings[0].formula


def test_the_document_is_downloaded_byte_for_byte(client: FlaskClient, publish: Publish) -> None:
    report = make_hostile_report()
    response = client.get(f"{publish(report)}/json")
    assert response.data == report.to_json()
    assert response.headers["Content-Disposition"].startswith("attachment")
    # The pdf is shown and kept.
    path = publish(report)
    first, second = client.get(f"{path}/pdf"), client.get(f"{path}/pdf")
    assert first.mimetype == "application/pdf"
    assert first.data.startswith(b"%PDF")
    assert first.data == second.data


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_what_a_link_must_keep(
    client: FlaskClient, publish: Publish, form: str, log: io.StringIO
) -> None:
    path = publish(make_scaled_report(findings=2))
    for response in (client.get(path + form), client.get(f"/r/{path[3:]}x{form}")):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "noindex" in response.headers["X-Robots-Tag"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "unsafe-inline" not in response.headers["Content-Security-Policy"]
    assert response.status_code == 404
    assert path[3:] not in log.getvalue()
    assert "request" in log.getvalue()


def test_evidence_stands_on_a_findings_own_page(client: FlaskClient, publish: Publish) -> None:
    report = make_scaled_report(findings=60)
    path = publish(report)
    page = client.get(path).get_data(as_text=True)
    assert "91,252" not in page
    last = report.findings[-1]
    assert f'href="?finding={last.id}"' in page
    own = client.get(f"{path}?finding={last.id}").get_data(as_text=True)
    assert own.count("91,252") == len(last.evidence)
    assert '<time datetime="2026-02-01T10:00:00Z">Feb 1, 2026, 10:00 UTC</time>' in own


@each_case("unknown", ["", "d1-999", "<script>", "../x"])
def test_a_finding_that_there_is_not_is_not_found(
    client: FlaskClient, publish: Publish, unknown: str
) -> None:
    path = publish(make_scaled_report(findings=2))
    assert client.get(path, query_string={"finding": unknown}).status_code == 404


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (make_scaled_report(findings=0), "We found no avoidable spend"),
        (make_scaled_report(findings=1), "is avoidable"),
        (Report.from_json(get_sample_report()), "You could save $347–2,137 a month"),
    ],
)
def test_the_first_sentence_fits_what_was_found(
    client: FlaskClient, publish: Publish, shape: Report, sentence: str
) -> None:
    assert sentence in client.get(publish(shape)).get_data(as_text=True)


def test_one_of_anything_is_singular(client: FlaskClient, publish: Publish) -> None:
    report = make_scaled_report(findings=1, days=1, records=1, models=1)
    page = " ".join(client.get(publish(report)).get_data(as_text=True).split())
    assert "Based on 1 call (" in page
    assert "in 1 day," in page
    for wrong in ("1 calls", "1 days", "1 findings", "1 models"):
        assert f" {wrong}" not in page
    assert "add up" not in page


def test_a_document_of_an_earlier_version_is_shown(client: FlaskClient, publish: Publish) -> None:
    report = make_scaled_report(findings=3)
    old = {name: getattr(report, name) for name in report.__struct_fields__[:9]}
    old["findings"] = tuple(_without_formula(one) for one in report.findings)
    page = client.get(publish(Report(**old))).get_data(as_text=True)
    assert whole_usd(report.audit.projected_spend_usd) in page
    assert "How we calculated this" not in page


def _without_formula(finding: Finding) -> Finding:
    fields = {name: getattr(finding, name) for name in finding.__struct_fields__}
    return Finding(**(fields | {"formula": ""}))


def test_negotiated_rates_are_named_on_the_page(client: FlaskClient, publish: Publish) -> None:
    report = make_scaled_report(findings=3)
    listed = client.get(publish(report)).text
    assert "Your negotiated discounts are not included." in listed
    terms = ("openai: 12% off", "anthropic claude-<b>: input_mtok $4")
    agreed = replace(report, prices=replace(report.prices, negotiated=terms))
    page = client.get(publish(agreed)).text
    assert "These negotiated rates replace them:" in page
    assert "openai: 12% off" in page
    assert "claude-&lt;b&gt;" in page


def test_the_sample_is_what_the_library_finds_today() -> None:
    from examples.make_sample_report import make_sample_report

    assert get_sample_report() == make_sample_report()


def test_the_sample_is_open_and_says_what_it_is(client: FlaskClient) -> None:
    page = client.get("/sample").get_data(as_text=True)
    assert "4,971 generated calls" in page
    assert client.get("/sample?finding=d1-001").status_code == 200
    assert client.get("/sample?finding=d9-001").status_code == 404


def test_the_sample_can_be_downloaded_as_a_customers_report_can(client: FlaskClient) -> None:
    page = client.get("/sample").get_data(as_text=True)
    table = codecs.BOM_UTF8 + b"id,"
    begins = {"/sample/pdf": b"%PDF-", "/sample/json": b"{", "/sample/findings.csv": table}
    for path, begin in begins.items():
        assert f'href="{path}"' in page
        answer = client.get(path)
        assert answer.status_code == 200
        assert "tallystick-sample-report." in answer.headers["Content-Disposition"]
        assert answer.data.startswith(begin)
    assert client.get("/sample/json").data == get_sample_report()
    assert client.get("/sample/pdf").data == client.get("/sample/pdf").data
