"""The PDF of a report: its numbers, labels and limits, and that it is stored."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from html import unescape
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace
from reportlab.pdfbase.pdfmetrics import stringWidth

from detectors import charts
from detectors.charts.chart import TEXT_SIZE, WIDTH
from detectors.contract import Report
from detectors.wording.figures import usd, whole_usd
from detectors.wording.quality import warnings
from service.core.blobs import BlobStore, FileBlobs
from service.models.audits.audits import Audit
from service.models.audits.blob_keys import pdf_key
from service.reports.kept import get_pdf
from service.reports.pdf import print_pdf
from service.reports.pdf.fonts import PLAIN, _is_drawn, printable
from service.reports.pdf.looks import MARGIN, PAGE
from service.reports.pdf.sections import with_named_labels
from service.reports.sample import get_sample_report
from tests.cases import each_case
from tests.lazily import pypdf
from tests.service.support.documents import make_finding, make_report, make_report_with_gaps
from tests.service.support.scaled_reports import (
    HOSTILE_LABELS,
    SHAPES,
    make_hostile_report,
    make_scaled_report,
)
from tests.worker.support.promises import sampled

MOST_PAGES, MOST_BYTES = 20, 200_000
EXTREMES: dict[str, Callable[[], Report]] = {
    **SHAPES,
    "4,000 findings": lambda: make_scaled_report(
        findings=4_000, labels=("w" * 200, "\u4e2d" * 190)
    ),
    "a century": lambda: make_scaled_report(days=36_500, models=1),
}


PERIOD: Final = "Oct 5, 2026 to Oct 18, 2026 (UTC)"
PUBLISHED_AT: Final = datetime(2026, 11, 22, 14, 5, 9, tzinfo=UTC)


@cache
def _print(document: bytes, published_at: datetime | None = None) -> bytes:
    return print_pdf(document, published_at)


@cache
def _read(document: bytes) -> "tuple[pypdf.PdfReader, str]":
    reader = pypdf.PdfReader(BytesIO(_print(document)))
    return reader, "\n".join(page.extract_text() for page in reader.pages)


def _flat(text: str) -> str:
    """Without line breaks and spaces: a reader's eye joins what the page's edge broke."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("shape", sampled(EXTREMES, 4))
def test_a_report_of_any_shape_fits_on_twenty_pages_and_in_200_kb(shape: str) -> None:
    content = print_pdf(EXTREMES[shape]().to_json())
    assert len(pypdf.PdfReader(BytesIO(content)).pages) <= MOST_PAGES
    assert len(content) <= MOST_BYTES


def test_negotiated_rates_are_named() -> None:
    report = make_scaled_report(findings=3)
    terms = ("openai: 12% off", "anthropic claude-<b>: input_mtok $4")
    agreed = replace(report, prices=replace(report.prices, negotiated=terms))
    assert _flat("replace them: openai: 12% off; anthropic claude-<b>: input") in _flat(
        _read(agreed.to_json())[1]
    )
    assert _flat("Your negotiated discounts are not included.") in _flat(_read(report.to_json())[1])


def test_the_dollars_are_those_of_the_document() -> None:
    document = get_sample_report()
    report = Report.from_json(document)
    text = _flat(_read(document)[1])
    audit = report.audit
    amounts = [one.spend_usd for one in report.spend_by_model[:10]]
    amounts += [one.spend_usd for one in report.spend_by_route[:10]]
    amounts.append(audit.total_spend_usd)
    projected = [one.monthly_cost_impact_usd for one in report.findings if one.formula]
    projected += [one.composed_usd for one in report.savings_by_detector]
    projected += [audit.projected_spend_usd, audit.projected_savings_usd]
    written = [*map(usd, amounts), *map(whole_usd, projected)]
    assert [words for words in written if _flat(words) not in text] == []


def test_no_dollars_are_printed_that_the_document_does_not_hold() -> None:
    report = make_scaled_report(findings=30)
    text = _flat(_read(report.to_json())[1])
    table = text[text.index("22smallerfindings") : text.index("Dataquality")]
    printed = re.findall(r"\$[\d,]+(?:\.\d\d)?", table)
    assert printed == [whole_usd(one.monthly_cost_impact_usd) for one in report.findings[8:]]


def test_every_label_is_readable_and_none_is_markup() -> None:
    report = make_hostile_report()
    # A search finds joined letters by the letters that they are forms of.
    text = unicodedata.normalize("NFKC", _flat(_read(report.to_json())[1]))
    for label in HOSTILE_LABELS:
        # Drawn from the left; a reader of the file may turn right-to-left words back.
        shown = {_flat(printable(label))[:40], _flat(label)[:40]}
        assert any(one in text for one in shown), label
    assert "\u202e" not in text


@each_case(
    ("label", "printed"),
    [
        ("Ünïcödé Ωμέγα Привет ⚡", "Ünïcödé Ωμέγα Привет ⚡"),
        ("bot 😀", "bot [grinning face]"),
        ("😀👩‍💻", "[grinning face, woman, personal computer]"),
        ("team 🇨🇭🇫🇷", "team [flag CH][flag FR]"),
        ("漢字 カナ ok 한국 บริการที่", "漢字 カナ ok 한국 บริการที่"),
        ("ok कख", "ok [U+0915 U+0916]"),
        ("क" * 190, f"[{' '.join(['U+0915'] * 12)} … 190 characters]"),
        ("a\u202eb", "a\\u202eb"),
        ("x שלום y", "x םולש y"),
        ("مسار الدعم", "ﻢﻋﺪﻟﺍ ﺭﺎﺴﻣ"),
        ("می‌خواهم ۱۲", "۱۲ ﻢﻫﺍﻮﺧﯽﻣ"),
        ("لا چت", "ﺖﭼ ﻻ"),
        ("ක්‍ෂ", "[U+0D9A U+0DCA U+0DC2]"),
        ("ad\u200cmin", "ad\\u200cmin"),
        ("verify: https://evil.example", "verify: https:// evil.example"),
        ("WWW.evil.example, eve@evil.example", "WWW. evil.example, eve@ evil.example"),
    ],
)
def test_scripts_that_the_fonts_have_are_kept_and_names_stand_for_the_rest(
    label: str, printed: str
) -> None:
    assert printable(label) == printed
    assert all(map(_is_drawn, printed))


def test_right_to_left_words_are_arranged_once_on_every_page() -> None:
    label = "مسار الدعم"
    report = make_report(findings=tuple(make_finding(each, route=label) for each in range(1, 20)))
    pages = [
        page.extract_text() for page in pypdf.PdfReader(BytesIO(print_pdf(report.to_json()))).pages
    ]
    text = unicodedata.normalize("NFKC", " ".join(pages))
    assert len(re.findall("مسار|راسم", text)) >= 10
    # What was arranged twice would be drawn, and read, in the wrong direction somewhere.
    assert ("مسار" in text) != ("راسم" in text)


def test_chinese_japanese_korean_and_thai_labels_can_be_read_and_searched() -> None:
    labels = ("漢字とカナの経路", "한국어 경로", "บริการลูกค้าที่นี่")
    document = make_scaled_report(models=3, labels=labels).to_json()
    text = _flat(_read(document)[1])
    assert [one for one in map(_flat, labels) if one not in text] == []
    assert len(_print(document)) < 200_000  # the characters that it shows, not fonts of 5 MB


def test_a_label_in_a_chart_never_runs_into_its_number() -> None:
    wide = ("\N{GRINNING FACE} " * 60, "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 100, "w" * 200)
    marked = "\N{THAI CHARACTER KO KAI}\N{THAI CHARACTER MAI THO}" * 100
    report = with_named_labels(make_scaled_report(models=4, labels=(*wide, marked)))
    for row in re.findall(r"<text[^>]*>[^<]*</text>" * 2, charts.spend_by_model(report).svg):
        label, number = (float(one) for one in map(_width, re.findall(r">([^<]+)<", row)))
        assert label + number < WIDTH


def _width(words: str) -> float:
    return float(stringWidth(unescape(words), PLAIN, TEXT_SIZE))


def test_it_has_a_title_an_outline_page_numbers_and_embedded_fonts() -> None:
    reader, text = _read(get_sample_report())
    assert reader.metadata is not None
    assert reader.metadata.title == "Language-model cost report"
    names = [str(one["/Title"]) for one in reader.outline if isinstance(one, dict)]
    assert names[:3] == ["Summary", "Where the money goes", "Findings"]
    pages = len(reader.pages)
    assert all(f"Page {page} of {pages}" in text for page in range(1, pages + 1))
    for page in reader.pages:
        for font in page["/Resources"]["/Font"].values():  # type: ignore[index]
            descriptor = font.get_object().get("/FontDescriptor")
            assert descriptor is not None, font.get_object()["/BaseFont"]
            assert "/FontFile2" in descriptor.get_object()


def test_it_is_dated_to_its_report_and_names_its_author_and_language() -> None:
    document = get_sample_report()
    printed = _print(document, PUBLISHED_AT)
    reader = pypdf.PdfReader(BytesIO(printed))
    assert reader.metadata is not None
    assert reader.metadata.creation_date == PUBLISHED_AT
    assert reader.metadata.modification_date == PUBLISHED_AT
    assert reader.metadata.author == "Tallystick"
    assert str(reader.root_object["/Lang"]) == "en-US"
    assert print_pdf(document, PUBLISHED_AT) == printed
    # Without a time of publication, it is dated to the last call.
    metadata, last_call = _read(document)[0].metadata, Report.from_json(document).audit.last_call
    assert last_call is not None
    assert metadata is not None
    assert metadata.creation_date == datetime.fromisoformat(last_call).replace(microsecond=0)


def test_a_document_of_an_earlier_version_is_printed_too() -> None:
    report = make_scaled_report(findings=3)
    old = {name: getattr(report, name) for name in report.__struct_fields__[:9]}
    _, text = _read(Report(**old).to_json())
    assert whole_usd(report.audit.projected_spend_usd) in text


def _tree(element: Any) -> Iterator[tuple[str, Any]]:
    element = element.get_object()
    yield str(element["/S"])[1:], element
    for kid in element["/K"]:
        if not isinstance(kid, int):
            yield from _tree(kid)


def test_its_content_is_tagged_in_reading_order() -> None:
    reader, _ = _read(get_sample_report())
    root = reader.root_object["/StructTreeRoot"]
    elements = [*_tree(root["/K"])]  # type: ignore[index]
    roles = [role for role, _ in elements]
    assert roles[:3] == ["Document", "P", "P"]
    levels = [int(role[1]) for role in roles if role[0] == "H"]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert {"H1", "H2", "H3", "P", "Figure", "Table", "TR", "TH", "TD"} <= set(roles)
    figures = [each for role, each in elements if role == "Figure"]
    assert [str(each["/Alt"]).partition(".")[0] for each in figures] == [
        "Monthly spend after verified and estimated fixes",
        *("Spend by day", "Spend by model", "Spend by route"),
    ]
    assert reader.root_object["/MarkInfo"]["/Marked"]  # type: ignore[index]
    numbers = root["/ParentTree"]["/Nums"]  # type: ignore[index]
    for at, page in enumerate(reader.pages):
        assert int(str(page["/StructParents"])) == at
        contents = page.get_contents()
        assert contents is not None
        code = contents.get_data().decode("latin-1")
        marks = [int(each) for each in re.findall(r"/MCID (\d+)>> BDC", code)]
        # Each mark of a page is that of one element, and nothing is drawn outside marks.
        assert marks == [*range(len(numbers[2 * at + 1].get_object()))]
        depth = 0
        for line in code.splitlines():
            depth += line.endswith(("BDC", "BMC"))
            depth -= line == "EMC"
            assert depth in (0, 1)
            assert depth or not re.search(r"(Tj|TJ|\bre|\bS|\bf\*?)$", line), line


@pytest.mark.parametrize("shape", ["sample", *sampled(SHAPES, 4)])
def test_no_page_but_the_last_is_half_empty(shape: str) -> None:
    document = get_sample_report() if shape == "sample" else SHAPES[shape]().to_json()
    *pages, _ = pypdf.PdfReader(BytesIO(_print(document))).pages
    for page in pages:
        lowest = [PAGE[1]]

        def see(text: str, form: Any, at: Any, *_more: Any, seen: list[float] = lowest) -> None:
            y = at[4] * form[1] + at[5] * form[3] + form[5]
            if text.strip() and y > MARGIN:  # above the footer
                seen.append(y)

        page.extract_text(visitor_text=see)
        assert min(lowest) < PAGE[1] / 2


def test_it_has_the_customers_name_and_the_period_and_leads_to_the_rules() -> None:
    url = "https://tally.example/sample#methods"
    content = print_pdf(get_sample_report(), name="Füllfeder <b> & Co", rules_url=url)
    reader = pypdf.PdfReader(BytesIO(content))
    first = reader.pages[0].extract_text()
    head = first[first.index("Tallystick\n") : first.index("You could save")]
    assert [each.strip() for each in head.splitlines()] == [
        *("Tallystick", "Füllfeder <b> & Co", PERIOD)
    ]
    assert reader.metadata is not None
    assert reader.metadata.title == "Language-model cost report for Füllfeder <b> & Co"
    text = "".join(page.extract_text() for page in reader.pages)
    assert "Stays quiet on." not in text
    links = [each["/A"]["/URI"] for page in reader.pages for each in page.get("/Annots", [])]
    assert links == [url]


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return FileBlobs(tmp_path)


def _audit(start: int) -> Audit:
    return Audit(id="a" * 32, frame_key=f"frames/{'a' * 32}-{start}.parquet")


def test_it_is_printed_once_for_a_name_and_kept_until_a_rerun(
    blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make_scaled_report(findings=1).to_json()
    first = get_pdf(blobs, _audit(1), document)
    assert blobs.get(pdf_key(_audit(1).frame_key or "")) == first
    named = get_pdf(blobs, _audit(1), document, name="Ada")
    assert named != first
    blobs.put(pdf_key(_audit(1).frame_key or ""), b"what is kept")
    assert get_pdf(blobs, _audit(1), document) == b"what is kept"
    assert get_pdf(blobs, _audit(1), document, name="Ada") == named
    assert get_pdf(blobs, _audit(2), document) == first

    def refuse(_key: str, _content: bytes) -> None:
        raise OSError

    # A reader gets it even where it cannot be kept.
    monkeypatch.setattr(blobs, "put", refuse)
    assert get_pdf(blobs, _audit(3), document).startswith(b"%PDF")


def test_what_is_not_priced_or_no_call_is_said_on_the_page_and_in_the_pdf(
    client: FlaskClient, publish: Callable[[Report], str]
) -> None:
    report = make_report_with_gaps()
    assert report.data_quality
    assert len(report.data_quality.missing_rates or ()) == 3
    said = warnings(report)
    assert sum(" no rate for it" in each for each in said) == 3
    assert any("a tier that we don't know: ultrafast." in each for each in said)
    assert any("5 rows are no calls to bill" in each for each in said)
    page = unescape(client.get(publish(report)).get_data(as_text=True))
    _, text = _read(report.to_json())
    for each in said:
        assert each in page
        assert _flat(each) in _flat(text)
