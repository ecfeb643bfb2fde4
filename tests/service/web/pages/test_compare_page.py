"""/compare: two periods, or two audits."""

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest
from sqlalchemy import insert, update
from sqlalchemy.orm import Session

import detectors
from detectors.contract import SpendByRoute
from service.models import Account, Audit, CallFile, FindingSaving, ReportRow
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.browser import Browser
from tests.service.support.documents import make_finding, make_report
from tests.service.support.findings import add_account_finding
from tests.service.support.scenes import Sessions, record
from tests.service.support.spend import FIRST, add_month, add_spend, spend_line, today
from tests.service.web.pages.scenes import add_run

MONTHS = "before_from=2026-02-01&before_to=2026-02-28&from=2026-03-01&to=2026-03-28"


def _rows(page: str, name: str) -> list[list[str]]:
    table = page[page.index(f'id="{name}"') :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    body = re.sub(r'<span class="rank">\d+</span>', "", body)
    return [
        [unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall("<td.*?>(.*?)</td>", row)]
        for row in re.findall("<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def test_a_new_account_has_nothing_to_compare(ada: Browser) -> None:
    assert "Nothing to compare yet" in ada.get("/compare")


def test_periods_are_compared_by_route_and_model_largest_change_first(
    ada: Browser, db_session: Session
) -> None:
    february = date(2026, 2, 1)
    lines = [
        *(spend_line(february, "10"), spend_line(february, "50", route="search")),
        *(spend_line(FIRST, "15"), spend_line(FIRST, "30", route="search")),
        spend_line(FIRST, "2", route=""),
    ]
    add_spend(db_session, ada.account_id, *lines)
    page = ada.get(f"/compare?{MONTHS}")
    assert _rows(page, "routes") == [
        ["search", "$50.00", "$30.00", "−$20.00", "−40.0%"],
        ["chat", "$10.00", "$15.00", "+$5.00", "+50.0%"],
        ["No tag or endpoint", "$0.00", "$2.00", "+$2.00", "New"],
    ]
    assert _rows(page, "models")[0][0] == "gpt-5.5 openai"
    assert '<a href="/route?route=search">' in page
    assert (
        "Mar 1, 2026 to Mar 28, 2026, compared with Feb 1, 2026 to Feb 28, 2026 (UTC)</h2>" in page
    )
    assert "−21.7%" in page


def test_a_change_is_the_difference_of_the_amounts_beside_it(
    ada: Browser, db_session: Session
) -> None:
    before = spend_line(date(2026, 2, 1), "80.786")
    add_spend(db_session, ada.account_id, before, spend_line(FIRST, "94.634"))
    page = ada.get(f"/compare?{MONTHS}")
    assert _rows(page, "routes") == [["chat", "$80.79", "$94.63", "+$13.84", "+17.1%"]]
    assert "+$13.84" in page[page.index("<dt>Change") : page.index("<dt>Findings")]
    assert "$13.85" not in page


@pytest.mark.parametrize("days", [7, 90])
def test_a_preset_compares_the_last_days_with_those_before(
    ada: Browser, db_session: Session, days: int
) -> None:
    add_month(db_session, ada.account_id, today(), days=8)
    page = ada.get(f"/compare?days={days}")
    title = f"{days} days compared with the {days} days before"
    assert f'<a href="/compare?days={days}" title="{title}" aria-current="true">' in page
    assert f'name="from" type="date" value="{today() - timedelta(days=days - 1)}"' in page
    assert f'name="before_to" type="date" value="{today() - timedelta(days=days)}"' in page


@each_case(
    ("query", "problem"),
    [
        ("from=2026-03-02&to=2026-03-01", "The first day must not be after the last."),
        ("from=yesterday", "Enter days from 2000 to 2100."),
        ("before_from=2024-01-01&before_to=2026-01-01", "Choose at most 400 days."),
        ("before=abc&from=2026-03-01", "Choose two audits."),
    ],
)
def test_what_cannot_be_compared_is_a_problem(
    ada: Browser, db_session: Session, query: str, problem: str
) -> None:
    add_month(db_session, ada.account_id, today(), days=2)
    assert f'role="alert">{problem}' in ada.get(f"/compare?{query}", 422)


def test_periods_without_calls_say_so(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(FIRST))
    assert "No calls in these periods" in ada.get("/compare?days=7")


def _add_audit(
    session: Session, account_id: str, spend: str, created_at: datetime, found: int = 2
) -> str:
    findings = (make_finding(1, route="chat"), make_finding(2, route="gpt-4o"))
    routes = (SpendByRoute(route="chat", calls=1, spend_usd=Decimal(spend)),)
    audit = Audit(account_id=account_id, source="account", blob_key="", status="done")
    audit.created_at, audit.window_days = created_at, 30
    session.add(audit)
    session.flush()
    document = make_report(spend_by_route=routes, findings=findings[:found]).to_json()
    session.add(ReportRow(audit_id=audit.id, document=document))
    session.commit()
    return audit.id


def test_audits_are_compared_by_utc_and_periods_by_the_time_zone(
    ada: Browser, db_session: Session
) -> None:
    now = utc_now()
    before, after = (
        _add_audit(db_session, ada.account_id, "40", now - timedelta(days=back)) for back in (1, 0)
    )
    db_session.execute(update(Account).values(time_zone="Europe/Berlin"))
    db_session.commit()
    page = ada.get(f"/compare?before={before}&after={after}")
    assert " (UTC)</h2>" in page
    add_spend(db_session, ada.account_id, spend_line(today()))
    words = "Days are UTC until your calls are counted again by Berlin time."
    assert words in ada.get("/compare?days=7")
    assert words not in page
    db_session.execute(update(CallFile).values(priced_with="1|2|Europe/Berlin"))
    db_session.commit()
    assert " (Berlin time)</h2>" in ada.get("/compare")
    page = ada.get(f"/compare?before={before}&after={after}")
    assert " (UTC)</h2>" in page
    assert page.count("Berlin time") == 2
    for entered in ("Before (Berlin time)", "After (Berlin time)"):
        assert f"<legend>{entered}</legend>" in page


def test_an_audit_is_compared_with_the_one_before_it(ada: Browser, db_session: Session) -> None:
    now = utc_now()
    before = _add_audit(db_session, ada.account_id, "40", now - timedelta(days=1))
    after = _add_audit(db_session, ada.account_id, "50", now)
    page = ada.get(f"/compare?after={after}")
    assert _rows(page, "routes") == [["chat", "$40.00", "$50.00", "+$10.00", "+25.0%"]]
    assert f'<option value="{before}" selected>' in page
    assert f'href="/compare?after={after}"' in ada.get(f"/audits/{after}")
    # An audit whose report was deleted is not the one before.
    db_session.query(ReportRow).filter_by(audit_id=before).delete()
    db_session.get_one(Audit, before).report_deleted_at = now
    db_session.commit()
    page = ada.get(f"/compare?after={after}")
    assert "Your account has no other audit to compare with yet." in page
    assert before not in page


def test_two_batches_are_compared_by_their_own_dollars(ada: Browser, sessions: Sessions) -> None:
    before, after = (
        detectors.audit(
            record(
                ts=f"2026-03-01T{12 + number // 60}:{number % 60:02d}:00Z",
                tag="short",
                model="gpt-4o",
                prompt_tokens=prompt_tokens,
            )
            for number in range(80)
        )
        for prompt_tokens in (20_000, 40_000)
    )
    assert before.audit.projected_spend_usd > 100 * before.audit.total_spend_usd
    ids = [
        add_run(sessions, ada.account_id, each, source="ingest", created_at=utc_now())
        for each in (before, after)
    ]
    amounts = [
        Decimal(cell.removeprefix("up to ").removeprefix("$").replace(",", ""))
        for row in _rows(ada.get(f"/compare?before={ids[0]}&after={ids[1]}"), "findings")
        for cell in row
        if cell.removeprefix("up to ").startswith("$")
    ]
    assert amounts
    assert max(amounts) <= after.audit.total_spend_usd


def test_findings_of_periods_have_the_words_of_findings_and_lead_to_them(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line(date(2026, 2, 1)), spend_line(FIRST))
    finding = add_account_finding(db_session, ada.account_id, confidence="CONDITIONAL")
    saving = {"account_finding_id": finding.id, "day": FIRST, "calls": 1}
    db_session.execute(insert(FindingSaving), [saving | {"saving_usd": Decimal(7)}])
    db_session.commit()
    page = ada.get(f"/compare?{MONTHS}")
    words = "Cache the repeated start of chat prompts"
    [row] = _rows(page, "findings")
    assert [row[0], *row[-2:]] == [words, "$0.00", "up to $7.00"]
    assert f'<a href="/findings/{finding.id}">' in page
    assert "Savings in 28 days before" in page
    assert "Savings in 28 days after" in page
    by_day = ada.get(f"/compare?{MONTHS.replace('03-28', '03-07')}")
    assert "Savings per day after" in by_day
    assert "Spend by route per day" in by_day
    assert "Changes are per day, because the first covers 28 days and the second 7 days." in by_day


def test_findings_of_audits_lead_to_the_report_that_has_them(
    ada: Browser, db_session: Session
) -> None:
    now = utc_now()
    before = _add_audit(db_session, ada.account_id, "40", now - timedelta(days=1))
    after = _add_audit(db_session, ada.account_id, "40", now, found=1)
    page = ada.get(f"/compare?before={before}&after={after}")
    assert "Savings after" in page
    paths = re.findall(r'href="(/audits/(\w+)\?finding=[^"]+)"', page)
    assert {audit_id for _path, audit_id in paths} == {before, after}
    for path, _audit_id in paths:
        ada.get(path)


@pytest.mark.parametrize(("chosen", "other"), [("after", "before"), ("before", "after")])
def test_a_single_audit_is_preset_and_the_other_asked_for(
    ada: Browser, db_session: Session, chosen: str, other: str
) -> None:
    now = utc_now()
    first = _add_audit(db_session, ada.account_id, "40", now - timedelta(days=1))
    alone = ada.get(f"/compare?{chosen}={first}")
    assert "Your account has no other audit to compare with yet." in alone
    _add_audit(db_session, ada.account_id, "50", now)
    page = ada.get(f"/compare?{chosen}={first}&{other}=")
    assert "Choose the audit to compare with." in page
    forms = dict(re.findall(r'<select id="(\w+)".*?<option value="(\w*)" selected>', page))
    assert forms == {chosen: first, other: ""}


def test_audits_of_another_account_are_neither_compared_nor_preset(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    audit_id = _add_audit(db_session, ada.account_id, "1", utc_now())
    assert "Choose two audits." not in ada.get(f"/compare?after={audit_id}")
    assert audit_id not in eve.get(f"/compare?after={audit_id}", 422)
    # Another accounts audits are not found.
    ids = [audit_id, _add_audit(db_session, ada.account_id, "1", utc_now())]
    eve.get(f"/compare?before={ids[0]}&after={ids[1]}", 404)
    assert "Nothing to compare yet" in eve.get("/compare")
    assert "No change" in ada.get(f"/compare?before={ids[0]}&after={ids[1]}")


def test_findings_of_an_accounts_audit_lead_to_their_route_and_model(
    ada: Browser, db_session: Session
) -> None:
    audit_id = _add_audit(db_session, ada.account_id, "1", utc_now())
    for query in ("", "?finding=d1-001"):
        page = ada.get(f"/audits/{audit_id}{query}")
        assert '<a href="/route?route=chat">' in page
        assert '<a href="/model?provider=openai&amp;model=gpt-4o">' in page
        assert "/route?route=gpt-4o" not in page
