"""/route and /model: the page of one route, and of one model."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import quote

import pytest
from sqlalchemy.orm import Session

from detectors.contract import Traffic, TrafficWindow
from service.models.calls.traffic import replace_traffic
from tests.service.support.browser import Browser, words_of
from tests.service.support.findings import add_account_finding
from tests.service.support.spend import FIRST, add_month, add_spend, spend_line, today
from tests.service.web.pages.words import words

ODD = "team/a?b=c&d #1 <b>"


def _names(page: str) -> list[str]:
    """The first cells of the table of groups, as text."""
    table = page[page.index('id="by-group"') :]
    rows = re.findall('<tr><td><span class="rank">[0-9]+</span>(.*?)</td>', table)
    return [unescape(re.sub("<[^>]+>", "", cell)) for cell in rows]


def test_a_route_has_its_own_spend_models_and_chart(ada: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, today())
    page = ada.get("/route?route=chat")
    assert ">$82.50</span></dd>" in page
    assert _names(page) == ["gpt-5.5", "gpt-5.5-mini"]
    assert "<li data-from=" in page
    assert "claude" not in page
    assert _names(ada.get("/route?route=chat&group=environment")) == ["production"]


def test_a_model_has_its_own_spend_and_routes_over_all_providers_or_of_one(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, today())
    add_spend(db_session, ada.account_id, spend_line(today(), "9", route="eu", provider="azure"))
    both, one = "/model?model=gpt-5.5", "/model?provider=openai&model=gpt-5.5"
    assert _names(ada.get(both)) == ["chat", "eu"]
    page = ada.get(one)
    assert _names(page) == ["chat"]
    assert f'<a href="{both}">All providers</a>' in page


@pytest.mark.parametrize("days", [7, 90])
def test_links_between_the_pages_keep_the_range(
    ada: Browser, db_session: Session, days: int
) -> None:
    add_month(db_session, ada.account_id, today(), days=3)
    assert f'<a href="/route?route=chat&amp;days={days}">' in ada.get(f"/spend?days={days}")
    page = ada.get(f"/route?route=chat&days={days}")
    assert f'<a href="/model?model=gpt-5.5&amp;days={days}">' in page
    assert f'<a href="/route?days={days}&amp;group=provider&amp;route=chat">' in page


def test_a_name_may_hold_anything_that_a_label_may(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(today(), route=ODD))
    link = re.findall('href="(/route[^"]*)"', ada.get("/spend"))[0]
    page = ada.get(unescape(link))
    assert "<bdi>team/a?b=c&amp;d #1 &lt;b&gt;</bdi></h1>" in page
    assert ">$1.50</span></dd>" in page


def test_calls_without_tag_and_endpoint_have_a_page(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(today(), route=""))
    page = ada.get("/route?route=")
    assert "No tag or endpoint</h1>" in page
    assert ">$1.50</span></dd>" in page


def test_a_model_without_stored_spend_still_shows_its_findings(
    ada: Browser, db_session: Session
) -> None:
    finding = add_account_finding(db_session, ada.account_id)
    page = ada.get(f"/model?provider={finding.provider}&model={finding.model}")
    assert "No calls in this period" in page
    assert "The latest calls of this model" not in page
    assert f'href="/findings/{finding.id}"' in page


def test_an_unknown_name_is_404_with_similar_names(ada: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, today(), days=2)
    response = ada.client.get("/route?route=serch&days=7")
    page = response.get_data(as_text=True)
    assert response.status_code == 404
    assert "None of your calls has the route serch" in words(response)
    assert '<a href="/route?route=search&amp;days=7">' in page
    assert "chat" not in page
    assert "Most expensive models" in words(ada.client.get(f"/model?model={quote(ODD)}"))


@pytest.mark.parametrize("path", ["/route", "/model"])
def test_without_a_name_there_is_a_choice(ada: Browser, db_session: Session, path: str) -> None:
    assert "Your account has no calls yet." in ada.get(path)
    add_month(db_session, ada.account_id, today(), days=2)
    assert f'<li class="anywhere"><a href="{path}?' in ada.get(path)


def test_a_period_without_calls_leads_to_the_latest_ones(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(), spend_line(today(), route="search"))
    page = ada.get("/route?route=chat")
    assert "The latest calls of this route are from Mar 1, 2026." in page
    until = f"from={FIRST - timedelta(days=29)}&amp;to={FIRST}"
    assert f'href="/route?{until}&amp;route=chat"' in page


def test_the_findings_of_a_route_and_of_a_model_have_their_state(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line(today()), spend_line(today(), route=""))
    add_account_finding(db_session, ada.account_id, route="chat", state="acknowledged")
    add_account_finding(db_session, ada.account_id, route="gpt-5.5", kind="own")
    add_account_finding(
        db_session, ada.account_id, route="search", model="other", state="dismissed"
    )
    assert _states(ada.get("/route?route=chat")) == ["Acknowledged"]
    assert _states(ada.get("/route?route=")) == ["Open"]
    assert sorted(_states(ada.get("/model?model=gpt-5.5&provider=openai"))) == [
        "Acknowledged",
        "Open",
    ]
    assert _states(ada.get("/model?model=gpt-5.5&environment=production")) != []


def _states(page: str) -> list[str]:
    table = page[page.index('id="findings"') :]
    return re.findall('<span class="badge [a-z]+">([A-Za-z]+)</span>', table)


def test_another_accounts_route_is_unknown(ada: Browser, eve: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, today(), days=2)
    response = eve.client.get("/route?route=chat")
    assert response.status_code == 404
    assert "search" not in response.get_data(as_text=True)


def test_the_findings_page_leads_to_routes_and_models(ada: Browser, db_session: Session) -> None:
    add_account_finding(db_session, ada.account_id, route="chat")
    page = ada.get("/findings")
    assert '<a href="/route?route=chat">' in page
    assert '<a href="/model?provider=openai&amp;model=gpt-5.5">' in page


def _traffic(model: str, hour: int, latencies: dict[int, int]) -> Traffic:
    hours = [10 * (at == hour) for at in range(24)]
    labels = {"route": "chat", "provider": "openai", "model": model}
    return Traffic(**labels, calls=10, hours=hours, latencies=latencies)


def test_hours_and_latencies_are_those_of_the_latest_audit_and_say_so(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line(today()))
    assert "appear with the next audit of all your calls" in ada.get("/route?route=chat")
    ends = {"first_call": datetime(2026, 10, 1, 8, tzinfo=UTC)}
    ends["last_call"] = datetime(2026, 10, 31, 7, tzinfo=UTC)
    rows = [_traffic("gpt-5.5", 9, {94: 9, 186: 1}), _traffic("gpt-5.5-mini", 14, {})]
    replace_traffic(db_session.connection(), ada.account_id, TrafficWindow(traffic=rows, **ends))
    db_session.commit()
    page = words_of(ada.get("/route?route=chat"))
    assert "Oct 1, 2026, 08:00 UTC to Oct 31, 2026, 07:00 UTC" in page
    audited = "Audited Oct 1, 2026 to Oct 31, 2026"
    assert f"{audited}: 20 calls; peak: 10 from 09:00 to 10:00 UTC." in page
    assert "All calls 100 ms 8.9 s 10 gpt-5.5 100 ms 8.9 s 10" in page
    add_spend(db_session, ada.account_id, spend_line(today(), model="gpt-5.5-mini"))
    assert "These calls have no latency." in ada.get("/model?model=gpt-5.5-mini")
