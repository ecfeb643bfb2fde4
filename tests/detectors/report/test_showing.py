"""What a notebook shows of reports and findings, as frames, cells, files and explanations."""

import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import detectors
from detectors import Report
from detectors.contract import InvalidRows, KnownModel, UnpricedModel
from detectors.wording.actions import title
from detectors.wording.figures import usd, whole_usd
from tests.detectors.reports import make_finding, make_report
from tests.service.support.scaled_reports import (
    HOSTILE_LABELS,
    make_hostile_report,
    make_scaled_report,
)

SAMPLE = Path(__file__).parents[3] / "examples" / "sample-usage.jsonl"
VOID = {"meta", "br"}
CALL = {
    "ts": "2026-11-02T09:00:00Z",
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 10,
    "completion_tokens": 2,
}


@pytest.fixture(scope="module")
def report() -> Report:
    return detectors.audit(SAMPLE)


class _Reader(HTMLParser):
    """The page's text and tags; fails where tags are not closed in their order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def _shown(report: Report) -> list[str]:
    """Everything that can be shown of a report."""
    report_and_findings = [report._repr_html_(), *(f._repr_html_() for f in report.findings[:50])]
    explained = [report.explain(f.id)._repr_html_() for f in report.findings[:50]]
    return [*report_and_findings, *explained, report.compare(report)._repr_html_()]


def test_a_report_shows_its_headline_its_bars_and_its_table(report: Report) -> None:
    page = _Reader(report._repr_html_())
    assert "You spend about $" in page.text
    assert page.tags.count("svg") == 1
    assert "Potential savings by finding" in page.text
    for finding in report.findings[:20]:
        assert finding.id in page.text
        if finding.monthly_cost_impact_usd:
            assert whole_usd(finding.monthly_cost_impact_usd) in page.text


def test_a_finding_shows_all_its_fields(report: Report) -> None:
    finding = report.findings[0]
    text = _Reader(finding._repr_html_()).text
    for words in (str(title(finding)), finding.route, finding.fix, finding.formula):
        assert words in text
    assert f"the 20 most expensive of {finding.calls:,} calls" in text


def test_empty_and_very_large_reports_have_a_bounded_size() -> None:
    empty = detectors.audit([])
    assert "There were no calls to audit." in _Reader(empty._repr_html_()).text
    large = make_scaled_report(findings=400, days=400, records=10_000_000, models=200)
    assert len(large._repr_html_()) < 40_000
    assert "And 380 smaller findings" in _Reader(large._repr_html_()).text


def test_hostile_labels_stay_text_on_every_surface(tmp_path: Path) -> None:
    hostile = make_hostile_report()
    hostile.save(tmp_path / "report.html")
    harmless = {
        "div", "style", "h1", "h2", "h3", "p", "bdi", "figure", "figcaption", "details", "summary",
        "table", "thead", "tbody", "tr", "th", "td", "svg", "title", "desc", "text", "path",
        "b", "ol", "ul", "li",
        "html", "head", "body", "main", "meta",
    }  # fmt: skip
    for shown in [*_shown(hostile), (tmp_path / "report.html").read_text()]:
        page = _Reader(shown)
        assert set(page.tags) <= harmless
        assert page.addresses == []
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f]", shown)
    assert any("<" in label for label in HOSTILE_LABELS)


def test_the_saved_page_needs_no_other_file_and_holds_every_finding(
    report: Report, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    report.save(file)
    page = _Reader(file.read_text())
    assert page.addresses == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 4
    assert all(finding.id in page.text for finding in report.findings)
    assert "No negotiated rates were given." in page.text
    assert all(method.fires_on in page.text for method in report.methods)
    before = file.read_bytes()
    report.save(str(file))
    assert file.read_bytes() == before


def test_negotiated_rates_are_named_where_prices_are(tmp_path: Path) -> None:
    prices = detectors.PriceBook(discounts={"openai": 0.12})
    agreed = detectors.audit(SAMPLE, prices=prices)
    agreed.save(tmp_path / "report.html")
    assert "openai: 12% off" in _Reader((tmp_path / "report.html").read_text()).text
    assert "with negotiated rates" in _Reader(agreed._repr_html_()).text
    assert Report.from_json(agreed.to_json()).prices.negotiated == ("openai: 12% off",)


def _page(report: Report, folder: Path) -> str:
    report.save(folder / "report.html")
    return _Reader((folder / "report.html").read_text()).text


def test_the_saved_page_cautions_where_figures_may_mislead(tmp_path: Path) -> None:
    finding = make_finding(1, confidence="INFORMATIONAL", monthly_cost_impact_usd=Decimal(0))
    odd = replace(
        make_report(finding, below_floor=3, equiv_spend=True, valid_pct=90.0),
        invalid_rows=InvalidRows(count=5, reasons={"not JSON": 5}, first=()),
        unpriced=(
            UnpricedModel(
                provider="basement",
                model="llama-<b>",
                calls=7,
                tokens=8_765,
                suggestions=(KnownModel(provider="groq", model="llama-3"),),
            ),
        ),
    )
    words = _page(odd, tmp_path)
    for part in (
        "3 smaller findings under $0.01/month not listed",
        "not a bill",
        "Only 90% of the rows could be read",
        "Most common reason: not JSON",
        "llama-<b>",
        "8,765",
        "llama-3 (groq)",
        "No finding claims savings.",
    ):
        assert part in words + odd._repr_html_()


def test_saved_pages_of_tiny_and_huge_reports_are_complete(tmp_path: Path) -> None:
    assert "We found nothing to fix in these calls." in _page(detectors.audit([]), tmp_path)
    unpriced = [{**CALL, "model": "llama-on-a-shelf"}]
    assert "None of these calls has a known price." in _page(detectors.audit(unpriced), tmp_path)
    large = make_scaled_report(findings=400)
    words = _page(large, tmp_path)
    assert all(finding.id in words for finding in large.findings)


def test_a_report_can_be_saved_as_json_and_as_nothing_else(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    assert Report.from_json((tmp_path / "report.json").read_bytes()) == report
    with pytest.raises(ValueError, match=r"\.html or \.json"):
        report.save(tmp_path / "report.pdf")


def test_findings_become_frames(report: Report) -> None:
    frame, table = report.to_polars(), report.to_pandas()
    assert frame.shape == (len(report.findings), 18) == table.shape
    assert list(table.columns) == frame.columns
    assert frame["monthly_cost_impact_usd"].to_list() == [
        float(finding.monthly_cost_impact_usd) for finding in report.findings
    ]
    suggested = frame["suggested_model"].fill_null("").to_list()
    assert table["suggested_model"].fillna("").to_list() == suggested
    assert detectors.audit([]).to_polars().schema == frame.schema
    assert frame.schema["monthly_cost_impact_usd"] == pl.Float64


def test_an_explanation_has_the_formula_with_the_findings_own_numbers(report: Report) -> None:
    finding = next(one for one in report.findings if one.detector == "d2_missed_caching")
    explanation = report.explain(finding.id)
    assert explanation.formula == finding.formula
    assert explanation.thresholds["d2_cache_seconds"] == 300
    words = str(explanation)
    for part in (finding.id, finding.formula, finding.fix, explanation.rule, "d2_min_hash_calls"):
        assert part in words
    assert usd(abs(finding.evidence[0].saving_usd)) in explanation.most_expensive
    assert finding.formula in _Reader(explanation._repr_html_()).text


def test_the_explanation_of_a_finding_without_dollars_says_so() -> None:
    finding = make_finding(1, confidence="INFORMATIONAL", monthly_cost_impact_usd=Decimal(0))
    explanation = make_report(finding).explain("d1-001")
    assert "No savings are claimed" in str(explanation)
    assert "No savings are claimed" in explanation._repr_html_()


def test_an_unknown_finding_id_is_rejected_with_similar_ids(report: Report) -> None:
    with pytest.raises(KeyError, match="similar IDs: d1-0"):
        report.explain("d1-999")
    with pytest.raises(KeyError, match="no finding with this ID"):
        detectors.audit([]).explain("d1-001")
