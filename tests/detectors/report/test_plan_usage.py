"""Calls that a plan includes: no dollars of a report but those of its plan usage are of them."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from rich.console import Console

import detectors
from detectors import PriceBook, Report, contract
from detectors.cli.terminal import print_report
from detectors.contract import CallWindow, DailyPlanUsage, UsageRecord, UsageRecordV2
from detectors.html.page import print_page
from detectors.prices.model_data import flat_rate_labels
from detectors.report.account import Terms, audit_window, file_counts, sum_spend, write_calls
from detectors.report.account.file_counts import FileCounts
from detectors.wording.findings_csv import print_findings
from detectors.wording.tail import PLAN_HEADING, plan_tables
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS, SPARK_UNDER_STRESS, as_polars
from tests.detectors.reference.builders import CLAUDE, answers, bloat, hashed, series

METERED: Sequence[UsageRecord] = [
    *hashed(30, 20.0),
    *answers([20] * 12, tag="short"),
    *series([1_800.0] * 400),
    *bloat([9_000] * 9, 200),
]
# The same waste, larger and at other times, on the same routes and on its own.
WASTE: Sequence[Any] = [
    replace(record, prompt_tokens=3 * record.prompt_tokens, request_id=f"plan-{number}", **more)
    for number, (record, more) in enumerate(
        (record, more)
        for record in METERED
        for more in (
            {"billing": "included"},
            {"provider": "claude-code", "model": "claude-opus-4-5"},
            {"provider": "codex", "model": "unheard-of", "tag": "agent"},
        )
    )
]
BOTH = [*WASTE[: len(WASTE) // 2], *METERED, *WASTE[len(WASTE) // 2 :]]
NOW = datetime(2026, 11, 1, tzinfo=UTC)
TERMS = Terms(PriceBook(), None, detectors.Thresholds())


@pytest.fixture(scope="module")
def metered() -> Report:
    return detectors.audit(METERED)


@pytest.fixture(scope="module")
def both() -> Report:
    return detectors.audit(BOTH)


def without_plan_usage(report: contract.Report) -> bytes:
    """Return the document as it would be without the calls of a plan."""
    own = replace(
        report.audit,
        records=report.audit.metered_calls,
        included_calls=detectors.audit([]).audit.included_calls,
        equiv_spend=False,
    )
    document = detectors.audit([])
    return replace(report, audit=own, plan_usage=document.plan_usage).to_json()


def test_a_report_has_the_money_of_its_metered_calls_alone(metered: Report, both: Report) -> None:
    assert len(metered.findings) >= 4
    assert metered.audit.total_spend_usd > 0
    assert not metered.plan_usage
    assert both.plan_usage
    assert both.plan_usage.value_usd > 2 * metered.audit.total_spend_usd
    assert both.audit.records == len(BOTH)
    assert both.audit.included_calls == both.plan_usage.calls == len(WASTE)
    assert both.audit.equiv_spend
    assert without_plan_usage(both) == metered.to_json()


def test_plan_usage_adds_up_to_the_prices_of_its_calls(both: Report) -> None:
    usage = both.plan_usage
    assert usage
    as_billed = [
        replace(record, billing="metered", **({"provider": "anthropic"} if is_claude else {}))
        for record in WASTE
        for is_claude in [record.provider == "claude-code"]
    ]
    billed = detectors.audit([each for each in as_billed if each.provider != "codex"])
    assert usage.value_usd == billed.audit.total_spend_usd
    assert usage.unpriced_calls == len(METERED)
    assert sum(model.value_usd for model in usage.models) == usage.value_usd
    assert sum(route.value_usd for route in usage.routes) == usage.value_usd
    assert sum(model.calls for model in usage.models) == usage.calls
    assert usage.prompt_tokens == sum(record.prompt_tokens for record in WASTE)
    assert usage.completion_tokens == sum(record.completion_tokens for record in WASTE)
    assert [model.provider for model in usage.models][-1] == "codex"
    assert usage.models[-1].value_usd == 0
    by_model, _ = plan_tables(both)
    assert [row[-1] for row in by_model.rows if row[1] == "codex"] == ["–"]


def _terminal(report: Report) -> str:
    console = Console(width=200, record=True, file=StringIO())
    print_report(report, console, 100)
    return console.export_text()


def _page(report: Report) -> str:
    return unescape(re.sub("<[^>]+>", "\n", print_page(report)))


def _notebook(report: Report) -> str:
    return unescape(re.sub("<[^>]+>", "\n", report._repr_html_()))


def _compared(report: Report) -> str:
    return str(report.compare(detectors.audit(METERED[:40])))


def money(text: str) -> list[str]:
    """Return all dollars of a text, without its section on plan usage."""
    before, _, rest = text.partition(f"\n{PLAN_HEADING}\n")
    return re.findall(r"\$[\d,.]*\d", before + rest[rest.find("Data quality") :])


@pytest.mark.parametrize(
    "surface",
    [_page, _notebook, _terminal, _compared, print_findings, repr],
    ids=lambda f: f.__name__,
)
def test_every_surface_shows_the_same_money(
    surface: Callable[[Report], str], metered: Report, both: Report
) -> None:
    shown = money(surface(metered))
    assert shown or surface is print_findings
    assert money(surface(both)) == shown
    if surface in (_page, _notebook, _terminal):
        assert PLAN_HEADING in surface(both)
        assert PLAN_HEADING not in surface(metered)
        section = surface(both).partition(PLAN_HEADING)[2].partition("Data quality")[0]
        assert "$" in section
        assert not re.search(r"spend|spent|sav(e|ing)|waste", section, re.IGNORECASE)
    if surface is print_findings:
        assert surface(both) == surface(metered)


def test_a_label_comes_before_the_name_of_the_provider() -> None:
    fields: dict[str, Any] = {"tag": "agent", **CLAUDE, "provider": "claude-code"}
    key = detectors.audit(series([60.0] * 40, billing="metered", **fields))
    assert not key.plan_usage
    assert key.audit.total_spend_usd > 0
    assert key.audit.equiv_spend is False  # a bill at list prices
    plan = detectors.audit(series([60.0] * 40, **fields))
    assert plan.plan_usage
    assert plan.plan_usage.value_usd == key.audit.total_spend_usd
    assert plan.audit.total_spend_usd == 0


def test_every_label_of_a_plan_is_no_spend() -> None:
    """Coding plans, too: opencode writes `github-copilot`, `zai-coding-plan`, `kimi-for-coding`."""
    labels = flat_rate_labels()
    assert {"github-copilot", "zai-coding-plan", "kimi-for-coding", "opencode-go"} < set(labels)
    calls = [replace(METERED[0], provider=label, model="claude-sonnet-4-6") for label in labels]
    report = detectors.audit([*calls, replace(METERED[0], provider="anthropic")])
    assert report.plan_usage
    assert report.plan_usage.calls == report.audit.included_calls == len(labels)
    assert report.plan_usage.unpriced_calls == 0
    assert {each.provider for each in report.plan_usage.models} == set(labels)
    assert [each.provider for each in report.spend_by_model] == ["anthropic"]


def test_a_log_of_a_plan_alone_has_a_report_without_money() -> None:
    report = detectors.audit(WASTE)
    value = report.plan_usage and report.plan_usage.value_usd
    assert value
    assert report.audit.total_spend_usd == report.audit.projected_savings_usd == 0
    assert (report.audit.records, report.findings, report.unpriced) == (len(WASTE), (), ())
    for surface in (_page, _notebook, _terminal):
        shown = surface(report)
        assert "All of these calls are included in a plan. Their value is $" in shown
        assert set(money(shown)) <= {"$0.00", "$0", *re.findall(r"\$[\d,.]*\d", shown)[:1]}
        assert "prefix hash" not in shown.partition("Data quality")[2].partition("Prices")[0]
        assert "Where the money goes" not in shown
        assert "could be priced" not in shown


def test_logs_that_are_audited_together_keep_their_own_plan_usage(
    metered: Report, both: Report
) -> None:
    logs = [detectors.read(log) for log in (BOTH, METERED, WASTE)]
    first, second, third = detectors.report.audit_many(logs)
    assert first.to_json() == both.to_json()
    assert second.to_json() == metered.to_json()
    assert third.to_json() == detectors.audit(WASTE).to_json()


@pytest.mark.parametrize("name", [*LOCAL_INPUTS, SPARK_UNDER_STRESS[-1]])
def test_frames_of_every_library_keep_plans_apart(name: str, both: Report) -> None:
    assert detectors.audit(INPUTS[name](as_polars(BOTH))).to_json() == both.to_json()


def _store(records: Sequence[UsageRecord], file: Path) -> Path:
    frame = detectors.read(records).frame.sort("ts", maintain_order=True)
    with file.open("wb") as stored:
        write_calls(frame.with_columns(pl.lit("import").alias("import_id")), stored)
    return file


def test_the_audit_of_an_account_reads_counts_of_metered_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detectors.report.account.call_files.FEW_CALLS", 10)
    window = CallWindow(days=30, now=NOW)
    named = [replace(record, request_id=f"{n}", tag="one") for n, record in enumerate(METERED)]
    plans = [replace(record, tag="one") for record in WASTE]
    own = _store(named, tmp_path / "own.parquet")
    mixed = _store([*named, *plans], tmp_path / "mixed.parquet")
    apart = _store(plans, tmp_path / "apart.parquet")
    read = [FileCounts.read(file) for file in (own, mixed, apart)]
    assert [each and each.has_included for each in read] == [False, True, True]
    assert [each and each.days["calls"].sum() for each in read] == [len(METERED), len(METERED), 0]
    expected = audit_window([own], window, TERMS)
    for files in ([mixed], [own, apart]):
        found = audit_window(files, window, TERMS)
        assert found.report.audit.included_calls == len(WASTE)
        assert without_plan_usage(found.report) == expected.report.to_json()
        assert (found.finding_days, found.traffic) == (expected.finding_days, expected.traffic)
    alone = audit_window([apart], window, TERMS)
    assert alone.traffic is None
    assert alone.report.audit.total_spend_usd == 0
    # What an earlier release counted has the calls of plans among the others.
    monkeypatch.setattr(file_counts, "is_included", lambda _: pl.lit(value=False))
    labelled = [each for each in plans if each.provider == "claude-code"]
    assert FileCounts.read(_store(labelled, tmp_path / "earlier.parquet")) is None


def test_the_days_of_plans_have_lines_of_their_own() -> None:
    book = PriceBook()
    (own,), (lines,) = (sum_spend([detectors.read(log).frame], book) for log in (METERED, BOTH))
    assert [line for line in lines if not isinstance(line, DailyPlanUsage)] == own
    plans = [line for line in lines if isinstance(line, DailyPlanUsage)]
    usage = detectors.audit(BOTH).plan_usage
    assert usage
    assert sum((line.cost_usd for line in plans), Decimal(0)) == usage.value_usd
    assert sum(line.calls for line in plans) == usage.calls
    assert isinstance(WASTE[0], UsageRecordV2)
