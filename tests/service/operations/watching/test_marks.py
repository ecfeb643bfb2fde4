"""What happened on the days of a chart."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import insert
from sqlalchemy.orm import Session

from service.models.audits.audit_settings import save_price_terms
from service.models.calls.account_findings import FindingChange
from service.models.operations.chart_marks import add_mark
from service.models.watching.watches import UnusualDay
from service.operations.price_book import VERSION, save_update
from service.operations.watching.marks import list_marks
from tests.detectors.prices.published import make_providers
from tests.service.support.browser import Browser
from tests.service.support.findings import add_account_finding
from tests.service.support.spend import add_spend, spend_line

LAST = date(2026, 3, 31)
DAYS = (LAST - timedelta(days=29), LAST)


def _words(session: Session, account_id: str, only: Mapping[str, str]) -> dict[date, list[str]]:
    found = list_marks(session, account_id, DAYS, only)
    return {day: [mark.words for mark in marks] for day, marks in found.items()}


def test_an_unusual_day_is_that_of_the_series_of_this_scope_and_name(
    ada: Browser, db_session: Session
) -> None:
    account_id = ada.account_id
    series = [
        {"scope": scope, "name": name, "spend_usd": 9, "expected_usd": 1}
        for scope, name in (("account", None), ("route", None), ("model", "chat"))
    ]
    for back, each in enumerate(series):
        values = {"account_id": account_id, "day": LAST - timedelta(days=back), "series": [each]}
        db_session.execute(insert(UnusualDay).values(values))
    assert _words(db_session, account_id, {}) == {
        LAST: ["Unusual: Account $9.00, usually $1.00"],
        LAST - timedelta(days=1): ["Unusual: No tag or endpoint $9.00, usually $1.00"],
        LAST - timedelta(days=2): ["Unusual: chat $9.00, usually $1.00"],
    }
    assert [*_words(db_session, account_id, {"route": ""})] == [LAST - timedelta(days=1)]
    assert [*_words(db_session, account_id, {"model": "chat"})] == [LAST - timedelta(days=2)]
    assert _words(db_session, account_id, {"route": "chat"}) == {}


def test_a_fix_that_an_audit_noticed_is_marked_on_the_day_of_the_fix(
    ada: Browser, db_session: Session
) -> None:
    account_id = ada.account_id
    fixed_at = datetime(2026, 3, 12, 8, tzinfo=UTC)
    for changed_by, model in (("", "chat"), ("ada@example.com", "gpt-5.5")):
        finding = add_account_finding(
            db_session, account_id, route="chat", model=model, state="fixed", fixed_at=fixed_at
        )
        values = {"account_finding_id": finding.id, "changed_by": changed_by, "before": "open"}
        at = fixed_at + timedelta(days=14)
        change = insert(FindingChange).values(**values, after="fixed", changed_at=at)
        db_session.execute(change)
    assert sorted(_words(db_session, account_id, {})) == [date(2026, 3, 12), date(2026, 3, 26)]
    # Without tag and endpoint, the route of a finding is its model.
    assert [*_words(db_session, account_id, {"route": ""})] == [date(2026, 3, 12)]


def test_deploys_that_were_noted_and_own_prices_that_change_are_marked(
    ada: Browser, db_session: Session
) -> None:
    terms = """
[discounts]
openai = [{ share = 0.1, until = 2026-03-09 }, { share = 0.2, from = 2026-03-10 }]
[overrides.anthropic.claude-sonnet-4-5]
input_mtok = 2
from = 2026-04-01
"""
    save_price_terms(db_session, ada.account_id, terms)
    add_mark(db_session, ada.account_id, LAST, "Deploy 1.4")
    expected = {
        date(2026, 3, 10): ["Your prices for openai end", "Your prices for openai begin"],
        LAST: ["Deploy 1.4"],
    }
    assert _words(db_session, ada.account_id, {}) == expected
    # What changed for everything changed for a route and an environment, too.
    for only in ({"route": "chat"}, {"environment": "production"}):
        assert _words(db_session, ada.account_id, only) == expected


def test_a_list_price_that_changed_is_marked_where_the_model_has_spend(
    ada: Browser, db_session: Session
) -> None:
    lines = [
        spend_line(LAST, provider="anthropic", model="claude-opus-4-6", route="chat"),
        spend_line(LAST, provider="openrouter", model="mistral-small-latest"),
        spend_line(LAST, "0", provider="mistral", model="mistral-small-latest"),
    ]
    add_spend(db_session, ada.account_id, *lines)
    # Mistral's changed on March 16, but none of these calls was paid there.
    words = (
        "List price of anthropic claude-opus-4-6 changed: prompts over 200,000 tokens, "
        "input $10.00 → $5.00, output $37.50 → $25.00 per 1M"
    )
    assert _words(db_session, ada.account_id, {}) == {date(2026, 3, 13): [words]}
    assert _words(db_session, ada.account_id, {"route": "chat"}) == {date(2026, 3, 13): [words]}
    assert _words(db_session, ada.account_id, {"route": "other"}) == {}


def test_list_prices_are_those_of_the_latest_update_and_of_an_accounts_own_names(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line(LAST, provider="azure", model="ours"))
    assert _words(db_session, ada.account_id, {}) == {}
    terms = '[aliases.azure]\nours = { provider = "openai", model = "gpt-5.4" }\n'
    save_price_terms(db_session, ada.account_id, terms)
    assert _words(db_session, ada.account_id, {}) == {}
    book = make_providers(2)
    start = {"type": "start_date", "start_date": "2026-03-20"}
    prices = [
        {"prices": {"input_mtok": 3, "output_mtok": 15}},
        {"constraint": start, "prices": {"input_mtok": 2.5, "output_mtok": 15}},
    ]
    book[0]["models"][0]["prices"] = prices
    update = {"as_of": "2026-03-21", "version": VERSION, "providers": book}
    save_update(db_session.connection(), json.dumps(update).encode())
    words = "List price of azure ours changed: input $3.00 → $2.50 per 1M"
    assert _words(db_session, ada.account_id, {}) == {date(2026, 3, 20): [words]}


def test_the_most_expensive_models_whose_prices_changed_on_a_day_are_named(
    ada: Browser, db_session: Session
) -> None:
    book = make_providers(2)
    start = {"type": "start_date", "start_date": "2026-03-20"}
    for model in book[0]["models"][1:7]:
        model["prices"] = [
            {"prices": {"input_mtok": 3, "output_mtok": 15}},
            {"constraint": start, "prices": {"input_mtok": 2, "output_mtok": 15}},
        ]
    update = {"as_of": "2026-03-21", "version": VERSION, "providers": book}
    save_update(db_session.connection(), json.dumps(update).encode())
    lines = [spend_line(LAST, str(n + 1), provider="openai", model=f"m-{n}") for n in range(6)]
    add_spend(db_session, ada.account_id, *lines)
    prices = "input $3.00 → $2.00 per 1M"
    expected = [f"List price of openai m-{n} changed: {prices}" for n in (5, 4, 3)]
    expected.append("3 more list prices changed")
    assert _words(db_session, ada.account_id, {}) == {date(2026, 3, 20): expected}
    one = {date(2026, 3, 20): [f"List price of openai m-0 changed: {prices}"]}
    assert _words(db_session, ada.account_id, {"model": "m-0"}) == one
