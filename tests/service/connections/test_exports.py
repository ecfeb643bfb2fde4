"""A downloaded report is recognized, comes to what it says, names nobody, and has no calls."""

import gzip
import io
from decimal import Decimal

import pytest

from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats import read_chunks
from service.connections import exports
from service.connections.exports import Reading, UnreadableExportError, list_exports, read_export
from service.connections.provider import CostLine, UsageLine
from tests.cases import each_case
from tests.service.connections.exports import PERSON, SAMPLES, Sample


def _read(text: str | bytes) -> Reading:
    return read_export(io.BytesIO(text.encode() if isinstance(text, str) else text))


@each_case("sample", SAMPLES.values())
def test_a_report_comes_to_what_it_says(sample: Sample) -> None:
    reading = _read(sample.text)
    usage = [line for line in reading.lines if isinstance(line, UsageLine)]
    costs = [line for line in reading.lines if isinstance(line, CostLine)]
    assert (reading.export.provider, reading.export.name) == (sample.provider, sample.report)
    assert sum((line.amount for line in costs), Decimal(0)) == sample.billed
    assert sum(line.prompt_tokens for line in usage) == sample.prompt
    assert sum(line.cached_tokens for line in usage) == sample.cached
    assert sum(line.cache_write_tokens for line in usage) == sample.written
    assert sum(line.completion_tokens for line in usage) == sample.completion
    days = {line.bucket.date() for line in reading.lines}
    assert (min(days), max(days)) == (sample.first, sample.last)
    assert reading.left_out == sample.left_out
    assert PERSON not in repr(reading)


def test_every_kind_of_report_has_a_sample() -> None:
    kinds = {(each.provider, each.name) for each in list_exports()}
    others = {"images", "audio_speeches", "audio_transcriptions", "embeddings"}
    kinds -= {("openai", f"{name}_by_hand") for name in others}
    assert kinds == {(each.provider, each.report) for each in SAMPLES.values()}


@each_case("name", [name for name in SAMPLES if name != "cursor events"])
def test_a_report_never_enters_as_calls(name: str) -> None:
    file = io.BytesIO(SAMPLES[name].text.encode())
    with pytest.raises(UnreadableLogError, match="totals instead of calls.*tallystick reconcile"):
        list(read_chunks(file))


def test_rows_of_a_day_are_added_up() -> None:
    [first, second] = _read(SAMPLES["openai usage"].text).lines
    assert isinstance(first, UsageLine)
    assert isinstance(second, UsageLine)
    assert (first.requests, first.prompt_tokens, second.prompt_tokens) == (6, 2_000, 1_000)


def test_what_a_plan_includes_is_a_credit() -> None:
    costs = [
        (line.kind, line.amount)
        for line in _read(SAMPLES["copilot credits"].text).lines
        if isinstance(line, CostLine)
    ]
    assert costs == [("tokens", Decimal("0.3")), ("credit", Decimal("-0.1"))]


def test_a_compressed_report_with_another_encoding_is_read() -> None:
    text = SAMPLES["anthropic costs"].text
    for packed in (
        gzip.compress(text.encode()),
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
    ):
        assert sum(line.amount for line in _read(packed).lines if isinstance(line, CostLine)) == (
            Decimal("0.55")
        )


@each_case(
    ("old", "new"),
    [
        ("0.05,0.05", "canary,0.05"),
        ("0.05,0.05", "NaN,0.05"),
        ("0.05,0.05", "1e400,0.05"),
        ("2026-09-01,", "canary,"),
        ("2026-09-01,", "9999-09-01,"),
        ("2026-09-01,", ","),
        ("2026-09-01,", "1e20,"),
        ("0.05,0.05", "1e-400,0.05"),
    ],
)
def test_a_damaged_row_refuses_the_file_and_is_not_repeated(old: str, new: str) -> None:
    text = SAMPLES["anthropic costs"].text.replace(old, new)
    with pytest.raises(UnreadableExportError, match=r"row 1 has") as raised:
        _read(text)
    assert "canary" not in str(raised.value)


@each_case(
    "text",
    [
        "",
        "a,b\n1,2\n",
        "{",
        '{"data": 5}',
        "[1, 2]",
        '"' * 200_000,
        "x" * 300_000,
        "BilledCost,ChargePeriodStart,ProviderName\n1,2026-09-01,Nobody\n",
    ],
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(DetectorError, match=r"isn't|has no"):
        _read(text)


def test_a_bill_without_models_says_so() -> None:
    text = SAMPLES["aws report"].text.splitlines()
    with pytest.raises(UnreadableExportError, match="without any use of models"):
        _read("\n".join([text[0], text[3]]))


@each_case(
    ("meter", "kind"),
    [
        ("Gemini 2.5 Flash GA Cached Text Input - Predictions", "tokens"),
        ("Claude Sonnet 4.5 Output Tokens", "tokens"),
        ("Gemini 2.5 Pro Grounding with Google Search", "other_fee"),
        ("Vertex AI: Online Prediction node hours", "other_fee"),
    ],
)
def test_a_meter_of_google_is_of_tokens_or_a_fee(meter: str, kind: str) -> None:
    text = SAMPLES["focus of google"].text.replace("Tokens", "count").replace("input tokens", meter)
    line = _read(text).lines[0]
    assert isinstance(line, CostLine)
    assert line.kind == kind


def test_a_report_with_too_many_groups_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_MAX_LINES", 1)
    with pytest.raises(UnreadableExportError, match="more than 1 days"):
        _read(SAMPLES["anthropic costs"].text)


def test_a_missing_list_price_is_not_zero() -> None:
    text = SAMPLES["focus of aws"].text.replace("1.25,1.5", "1.25,")
    listed = [line.list_amount for line in _read(text).lines if isinstance(line, CostLine)]
    assert listed == [None, Decimal("0.005"), Decimal(0)]


@each_case(
    ("row", "missing"),
    [
        ('"num_model_requests": 5, "input_tokens": 9, "output_tokens": 1, "model": null', "model"),
        ('"amount": {"value": 0.06, "currency": "usd"}, "line_item": null', "line item"),
    ],
)
def test_sums_of_all_models_are_refused(row: str, missing: str) -> None:
    text = f'{{"data": [{{"start_time": 1788220800, "results": [{{{row}}}]}}]}}'
    with pytest.raises(UnreadableExportError, match=f"Export it grouped by {missing}"):
        _read(text)


def test_a_report_of_many_rows_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_ROWS_BETWEEN_CHECKS", 2)
    checks: list[int] = []
    text = SAMPLES["anthropic costs"].text
    read_export(io.BytesIO(text.encode()), advance=checks.append)
    header, row = text.splitlines()[:2]
    more = "\n".join([header, *[row] * 21])
    many: list[int] = []
    read_export(io.BytesIO(more.encode()), advance=many.append)
    assert len(many) >= len(checks) + 9


def test_a_large_json_is_refused() -> None:
    with pytest.raises(UnreadableExportError, match="too large"):
        _read("[" + " " * (5 << 20) + "]")
