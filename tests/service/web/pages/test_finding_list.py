"""/findings: its filters, order, search, downloads and views."""

import csv
import io
import re
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from service.models import Account, CallFile
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.browser import Browser, words_of
from tests.service.support.findings import add_account_finding
from tests.service.support.spend import add_spend, spend_line


def _routes(page: str) -> list[str]:
    found = page[page.index('id="rows"') :].partition("</form>")[0]
    return re.findall(r'data-label="Route".*?<bdi>(.*?)</bdi>', found)


def test_a_view_a_download_and_a_change_keep_search_order_and_columns(
    ada: Browser, db_session: Session
) -> None:
    finding = add_account_finding(db_session, ada.account_id, route="chat one")
    add_account_finding(db_session, ada.account_id, route="chat two")
    add_account_finding(db_session, ada.account_id, route="search")
    state = "detector=d2_missed_caching&sort=route&q=chat&hide=assignee"
    page = ada.get(f"/findings?{state}")
    assert _routes(page) == ["chat one", "chat two"]
    assert f'name="query" value="{state.replace("&", "&amp;")}"' in page
    [link] = re.findall(r'<a href="(/findings\.csv\?[^"]*)"', page)
    with ada.client.get(unescape(link)) as response:
        lines = [*csv.DictReader(io.StringIO(response.data.decode()))]
    assert sorted(line["route"] for line in lines) == ["chat one", "chat two"]
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    sent = {name: value for name, value in hidden if name in ("detector", "sort", "q", "hide")}
    chosen = {"finding": finding.id, "action": "acknowledge"}
    answer = ada.post(f"/findings?{state}", "/findings", **sent, **chosen)
    assert answer.headers["Location"].startswith(f"/findings?{state}&changed=1&undo=")


@pytest.mark.parametrize(
    ("sort", "direction", "routes"),
    [("seen", "descending", ["new", "old"]), ("-seen", "ascending", ["old", "new"])],
)
def test_the_latest_are_first_when_sorted_by_time(
    ada: Browser, db_session: Session, sort: str, direction: str, routes: list[str]
) -> None:
    for route, at in (("old", datetime(2026, 3, 1, tzinfo=UTC)), ("new", utc_now())):
        add_account_finding(db_session, ada.account_id, route=route, last_seen=at)
    page = ada.get(f"/findings?sort={sort}")
    assert _routes(page) == routes
    assert re.search(rf'aria-sort="{direction}"><a [^>]*>Last seen', page)


@each_case(
    ("state", "first"),
    [("open", "dismiss_90"), ("acknowledged", "dismiss_90"), ("dismissed", "reopen")],
)
def test_enter_in_a_reason_presses_no_button_of_another_menu(
    ada: Browser, db_session: Session, state: str, first: str
) -> None:
    finding = add_account_finding(db_session, ada.account_id, state=state)
    page = ada.get(f"/findings/{finding.id}")
    [form] = [each for each in re.findall("<form.*?</form>", page, re.DOTALL) if "reason" in each]
    assert re.findall('name="action" value="([^"]*)"', form)[0] == first
    assert ("acknowledge" in page.partition("<form")[2]) or state != "open"


def test_what_to_do_is_shown_whole(ada: Browser, db_session: Session) -> None:
    fix = "Stop בוט Inc. bot from retrying. Look for retries without a pause."
    finding = add_account_finding(
        db_session, ada.account_id, fix=fix, route="בוט Inc. bot", detector="d4_duplicate_calls"
    )
    page = ada.get(f"/findings/{finding.id}")
    whole = "Stop <bdi>בוט Inc. bot</bdi> from retrying. Look for retries without a pause."
    assert whole in page


def test_findings_without_savings_are_not_no_findings(ada: Browser, db_session: Session) -> None:
    assert "No findings yet" in ada.get("/findings")
    add_account_finding(db_session, ada.account_id, monthly_usd=Decimal(0))
    page = ada.get("/findings")
    assert "No findings yet" not in page
    assert "Nothing to fix: no open finding has savings. Show all" in words_of(page)
    assert _routes(ada.get("/findings?state=all")) == ["chat"]


def test_the_map_of_waste_has_whole_dollars_and_leads_to_its_findings(
    ada: Browser, db_session: Session
) -> None:
    names = {"route": "gpt-5.5", "model": "gpt-5.5"}
    add_account_finding(db_session, ada.account_id, monthly_usd=Decimal("41.37"), **names)
    add_account_finding(db_session, ada.account_id, route="chat")
    add_spend(db_session, ada.account_id, spend_line(route=""), spend_line())
    page = ada.get("/findings")
    squares = page[page.index('<table class="waste">') :].partition("</table>")[0]
    assert "No tag or endpoint" in squares
    assert "$41.37" not in squares
    assert re.search(r'<a href="/route\?route=#findings"><svg.*?</svg> \$41</a>', squares)
    assert 'href="/findings?detector=d2_missed_caching&amp;route=chat"' in squares
    assert "in the last 30 days (UTC)," in page
    zone = db_session.get_one(Account, ada.account_id).time_zone = "Europe/Berlin"
    db_session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
    db_session.commit()
    assert "in the last 30 days (Berlin time)," in ada.get("/findings")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"impact_low": 40, "impact_high": 60}, "estimated ($40 to $60) · about an hour"),
        # "Up to" says the same.
        (
            {"impact_low": 0, "impact_high": 50, "confidence": "CONDITIONAL"},
            "conditional · about an hour",
        ),
        # What a fix has saved is measured.
        ({"impact_low": 40, "impact_high": 60, "state": "fixed"}, "estimated · about an hour"),
    ],
)
def test_a_finding_has_the_range_of_its_savings(
    ada: Browser, db_session: Session, values: dict[str, Any], words: str
) -> None:
    add_account_finding(db_session, ada.account_id, **values)
    page = ada.get("/findings?state=all")
    assert f"prompts {words}" in words_of(page)
    # A narrower line says the range on hover only.
    assert ('<small class="sure" title="$' in page) == ("($" in words)
