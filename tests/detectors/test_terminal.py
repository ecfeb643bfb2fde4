"""A report on a terminal: what stands there, how wide, and that hostile labels stay inert."""

from decimal import Decimal
from io import StringIO

from msgspec.structs import replace
from rich.console import Console

from detectors import Report
from detectors.cli import terminal
from detectors.contract import InvalidRows, SpendByDay, SpendByRoute, UnpricedModel
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from tests.cases import each_case
from tests.detectors.reports import make_finding, make_report

HOSTILE = "[red]bold[/red] :boom: \x1b[31mred\r\n\u202egnirts\u2028\u200b"


def _printed(report: Report, *, width: int = 160, top: int = 20) -> str:
    file = StringIO()
    terminal.print_report(report, Console(file=file, width=width, markup=False), top)
    return file.getvalue()


def test_it_prints_the_headline_and_a_ranked_table() -> None:
    second = make_finding(
        2, kind="uncached_prefix", severity="low", monthly_cost_impact_usd=Decimal(7)
    )
    first = make_finding(1, suggested_model="gpt-5.4-mini")
    lines = _printed(make_report(first, second)).splitlines()
    assert lines[0] == "You spend about $10,000/month. About $3,140 of it (31.4%) is avoidable."
    assert "14 days (Oct 1, 2026 to Oct 14, 2026, UTC) · 4,210 calls" in lines[1]
    assert "genai-prices 1.2.3" in " ".join(" ".join(lines[1:3]).split())
    start = lines.index("Fix these first")
    assert [line.rstrip() for line in lines[start : start + 3]] == [
        "Fix these first",
        "  1. $1,235/month: Try gpt-5.4-mini instead of gpt-5.4 on support-bot",
        "     Estimated: based on the assumption stated in the fix",
    ]
    rows = [line for line in lines if "support-bot" in line][2:]
    for cell in ("1", detector_name("d1_model_overkill"), "gpt-5.4", "high", "estimated", "$1,235"):
        assert cell in rows[0]
    assert any("uncached_prefix" in line for line in lines)
    assert "$7.00" in rows[1]
    assert "1. Try gpt-5.4-mini on this route." in [line.rstrip() for line in lines]


@each_case("width", [60, 80, 100, 200])
def test_it_stays_within_the_terminal(width: int) -> None:
    report = make_report(make_finding(1, fix="Try another model. " * 20, route="x" * 200))
    assert all(len(line) <= width for line in _printed(report, width=width).splitlines())


def test_a_narrow_terminal_shows_whole_amounts() -> None:
    finding = make_finding(1, route="invoice-extraction", confidence="CONDITIONAL")
    rows = _printed(make_report(finding), width=80).splitlines()
    assert any(line.rstrip().endswith(" up to $1,235") for line in rows)


def test_it_breaks_no_name_of_usual_length_on_a_narrow_terminal() -> None:
    names = {
        "detector": "d9_max_tokens_misfit",  # without a display name
        "kind": "unhashed_prefix",
        "route": "invoice-extraction",
        "model": "claude-opus-4-1",
    }
    finding = make_finding(1, **names)
    lines = _printed(make_report(finding), width=80).splitlines()
    for name in names.values():
        assert any(name in line for line in lines)
    assert any("estimated" in line for line in lines)
    short = _printed(make_report(finding), width=60)
    assert "$1,235" in short


def test_it_prints_the_top_findings_or_that_there_are_none() -> None:
    report = make_report(*(make_finding(rank) for rank in range(1, 5)))
    assert "3 more findings. Use --top" in _printed(report, top=1)
    assert "1 more finding." in _printed(report, top=3)
    assert "more finding" not in _printed(report, top=4)
    # It says that nothing was found.
    text = _printed(make_report(records=0, first_call=None, last_call=None))
    assert "We found no avoidable spend." in text
    assert "14 days · 0 calls" in text


def test_it_warns_about_everything_that_limits_the_figures() -> None:
    report = make_report(make_finding(1), valid_pct=94.9, equiv_spend=True, below_floor=2)
    models = tuple(
        UnpricedModel(provider="lab", model=f"model-{number}", calls=number)
        for number in range(1, 8)
    )
    invalid = InvalidRows(count=12, reasons={}, first=())
    text = " ".join(_printed(replace(report, unpriced=models, invalid_rows=invalid)).split())
    assert "Only 94.9% of the rows could be read. The figures exclude the others." in text
    assert "Most common reason" not in text
    invalid = InvalidRows(count=12, reasons={"bad model": 2, "bad ts": 10}, first=())
    reason = " ".join(_printed(replace(report, invalid_rows=invalid)).split())
    assert "others. Most common reason: bad ts." in reason
    assert "not a bill" in text
    assert "model-1 (lab, 1 call)" in text
    assert "4 more." in text
    assert "2 smaller findings under $0.01/month not listed." in text


def test_it_warns_of_no_log_at_the_limit_or_without_rows() -> None:
    report = replace(
        make_report(valid_pct=95.0), invalid_rows=InvalidRows(count=5, reasons={}, first=())
    )
    assert "Only" not in _printed(report)
    # It does not warn of a log without rows.
    assert "Only" not in _printed(make_report(valid_pct=0.0, records=0))


def test_it_shows_a_negative_figure_with_its_sign() -> None:
    report = make_report(make_finding(1, monthly_cost_impact_usd=Decimal("-3")))
    assert "−$3.00" in _printed(report)


@each_case("width", [60, 160, 400])
def test_it_prints_hostile_labels_inert(width: int) -> None:
    report = make_report(make_finding(1, route=HOSTILE, model=HOSTILE, fix=HOSTILE))
    unpriced = (UnpricedModel(provider="lab", model=HOSTILE, calls=1),)
    text = _printed(replace(report, unpriced=unpriced), width=width)
    assert not set(text) & set("\x1b\r\u202e\u2028\u200b")
    assert "[red]bold[/red]:boom:" in "".join(text.split())


def test_it_escapes_what_could_move_hide_or_reorder_others() -> None:
    assert inert("\x1b\u202e\ud800\t é") == r"\x1b\u202e\ud800\t é"


def test_no_line_of_prose_is_longer_than_a_hundred_columns() -> None:
    report = make_report(make_finding(1, fix="Try another model. " * 20), equiv_spend=True)
    lines = _printed(report, width=300).splitlines()
    assert max(len(line.rstrip()) for line in lines if "model" in line) <= 100


def test_spend_is_shown_as_bars_with_the_others_counted() -> None:
    routes = tuple(
        SpendByRoute(route=f"route-{rank}", calls=1, spend_usd=Decimal(10 - rank))
        for rank in range(10)
    )
    days = tuple(
        SpendByDay(day=f"2026-10-{day:02}", calls=1, spend_usd=Decimal(day)) for day in range(1, 17)
    )
    report = replace(make_report(), spend_by_route=routes, spend_by_day=days)
    lines = [line.rstrip() for line in _printed(report).splitlines()]
    assert "  route-0  $10.00  " + "█" * 40 in lines
    assert "  route-5   $5.00  " + "█" * 20 in lines
    assert "  and 2 more routes" in lines
    assert "  Oct 16, 2026  $16.00  " + "█" * 40 in lines
    assert "  after 2 earlier days" in lines
