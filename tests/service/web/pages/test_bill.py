"""/bill and GET /api/v1/reconciliation: months, their difference, and the discount they show."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models import (
    AuditSettings,
)
from service.models.audits.audit_settings import save_price_terms
from service.models.base import utc_now
from service.models.connections.unsent import drop_unsent, replace_unsent, sum_unsent
from service.models.watching.budgets import save_budget
from service.operations.connections.coverage import find_unsent
from service.operations.connections.reconciliation import (
    UNEXPLAINED,
    Part,
    Reconciliation,
    lock_months,
    reconcile,
)
from service.operations.connections.wording import name_line, summarize
from service.operations.price_book import load_prices
from service.operations.price_terms import Named, add_price
from service.operations.watching.budgets import list_states
from tests.cases import each_case
from tests.service.support.bills import EVIL, MONTH, plant, unsent_on
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Sessions, Tenant, add_tenant, error_of
from tests.service.support.spend import add_spend, spend_line

API = "/api/v1/reconciliation"


@pytest.fixture
def tenant(sessions: Sessions, db_session: Session) -> Tenant:
    tenant = add_tenant(sessions)
    plant(db_session, tenant.account_id)
    return tenant


def _read(client: FlaskClient, tenant: Tenant, query: str = "") -> Any:
    answer = client.get(f"{API}{query}", headers=tenant.reads)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()["reconciliations"]


def test_each_month_closes_to_the_cent_in_each_kind_of_lines(
    client: FlaskClient, tenant: Tenant
) -> None:
    [found] = _read(client, tenant)
    assert (found["provider"], found["month"]) == ("openai", "2026-02")
    assert found["billed_usd"] == pytest.approx(28 * (62.5 + 25 + 4), abs=0.1)
    assert found["reported_usd"] == pytest.approx(28 * 87.5, abs=0.1)
    assert found["coverage"] == pytest.approx(25 / 35, abs=0.001)
    parts = {part["kind"]: part["usd"] for part in found["parts"]}
    assert parts["file_search"] == 112
    assert parts["not_sent"] == pytest.approx(700, abs=0.5)
    assert found["unexplained_usd"] == 0
    assert found["counted_usd"] + sum(parts.values()) == pytest.approx(found["billed_usd"])
    [silent] = found["not_sent"]
    assert (silent["project_id"], silent["project"]) == ("proj_2", EVIL)
    # Months and providers can be chosen.
    assert len(_read(client, tenant, "?from=2026-02&to=2026-02&provider=openai")) == 1
    assert _read(client, tenant, "?from=2026-03") == []
    assert _read(client, tenant, "?to=2026-01") == []
    assert _read(client, tenant, "?provider=anthropic") == []
    for query in ("?from=2026-13", "?from=2026-02-01", "?from=2026-03&to=2026-02"):
        answer = client.get(f"{API}{query}", headers=tenant.reads)
        error_of(answer, 422, "validation_error")
    # Lines add up to the bill.
    for lines, count in (("day", 28), ("model", 2), ("project", 2)):
        [found] = _read(client, tenant, f"?lines={lines}")
        billed = [line["billed_usd"] for line in found["lines"]]
        assert (len(billed), sum(billed)) == (count, pytest.approx(found["billed_usd"]))


def test_calls_of_one_model_cover_no_tokens_of_another(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    counts = {"prompt_tokens": 10**9, "completion_tokens": 0}
    none = {"cached_tokens": 0, "cache_write_tokens": 0}
    add_spend(
        db_session, tenant.account_id, spend_line(MONTH, "9", model="gpt-5.5", **counts, **none)
    )
    [found] = _read(client, tenant, "?lines=model")
    assert found["coverage"] == pytest.approx(25 / 35, abs=0.001)
    covered = {line["key"]: line["coverage"] for line in found["lines"]}
    assert covered["gpt-4o"] == found["coverage"]
    assert covered["gpt-5.5"] is None


def test_a_bill_is_summed_up_in_grammatical_words() -> None:
    found = Reconciliation("openai", MONTH, billed_usd=Decimal(2), explained_usd=Decimal("13.65"))
    found.parts = [Part(UNEXPLAINED, Decimal("-14.37"))]
    assert summarize(found) == (
        "OpenAI billed $2.00. Your calls explain $13.65 (more than billed). −$14.37 is unexplained."
    )
    # A provider without projects has no default one.
    found = Reconciliation("cursor", date(2026, 2, 1), projects=[Part("not_sent", Decimal(50))])
    assert "$50.00 was not sent." in summarize(found)
    found.projects = [*found.projects, Part("not_sent", Decimal(9), "proj_1")]
    assert "$50.00 is the default project, which sends nothing here." in summarize(found)
    # A line of the bill has a name.
    names = [name_line(key) for key in ("credit", "tax", "tokens", "", "seats", "gpt-4o")]
    assert names == ["Credits", "Taxes", "No model", "No model", "Seats", "gpt-4o"]


def test_a_discount_that_the_bill_shows_becomes_a_negotiated_rate(
    ada: Browser, db_session: Session
) -> None:
    plant(db_session, ada.account_id, rate="0.88")
    page = "/bill/openai/2026-02"
    alias = Named(provider="openai", model="mine", as_provider="openai", as_model="gpt-4o")
    terms = add_price(load_prices(db_session.connection()), "", alias)
    save_price_terms(db_session, ada.account_id, terms)
    db_session.commit()
    assert "You seem to pay 12% less than list price." in words_of(ada.get(page))
    assert ada.post(page, f"{page}/discount").status_code == 303
    settings = db_session.get(AuditSettings, ada.account_id)
    assert settings is not None
    assert "openai" in settings.price_terms
    assert "0.12" in settings.price_terms
    assert "You seem to pay" not in ada.get(page)


def test_the_page_explains_each_month(ada: Browser, db_session: Session) -> None:
    assert "Connect a provider" in words_of(ada.get("/bill"))
    # The page explains the month.
    plant(db_session, ada.account_id)
    home = words_of(ada.get("/bill"))
    assert "Feb 2026 OpenAI $2,561.93 $1,749.93" in home, home
    page = ada.get("/bill/openai/2026-02")
    words = words_of(page)
    assert "OpenAI billed $2,561.93." in words
    assert "which sends nothing here" in words
    assert "$112.00 is file search." in words
    assert "Nothing is unexplained." in words
    assert "File search $112.00 – – –" in words, words
    assert EVIL not in page
    # A bill without a discount offers none.
    plant(db_session, ada.account_id)
    page = "/bill/openai/2026-02"
    assert "You seem to pay" not in ada.get(page)
    for path in ("openai/2026-01", "openai/xx", "anthropic/2026-02"):
        ada.get(f"/bill/{path}", status=404)
    assert ada.act(page, f"{page}/discount").status_code == 422


def test_days_that_are_not_compared_again_keep_what_no_call_covers(
    ada: Browser, db_session: Session
) -> None:
    """Each comparison reaches back as far as reports are pulled, and spend is kept longer."""
    today = utc_now().date()
    days = [today - timedelta(days=450), today - timedelta(days=1), today]
    connection, account_id = db_session.connection(), ada.account_id
    replace_unsent(connection, account_id, "anthropic", [unsent_on(day) for day in days])
    since = today - timedelta(days=400)
    replace_unsent(connection, account_id, "anthropic", [unsent_on(today)], since)
    assert sum_unsent(connection, account_id, (days[0], today)) == 2 * Decimal("12.5")
    assert sum_unsent(connection, account_id, (since, today)) == Decimal("12.5")
    replace_unsent(connection, account_id, "anthropic", [], since)
    assert sum_unsent(connection, account_id, (days[0], today)) == Decimal("12.5")


def test_spend_says_what_no_call_covers(ada: Browser, db_session: Session) -> None:
    today = utc_now().date()
    replace_unsent(db_session.connection(), ada.account_id, "anthropic", [unsent_on(today)])
    db_session.commit()
    page = words_of(ada.get("/spend"))
    assert "$12.50 of this is in your providers' reports and in no call that you sent." in page
    assert "not sent: search" in page
    with ada.client.get("/spend.focus.csv?days=7") as answer:
        assert "not sent: search" in answer.get_data(as_text=True)
    save_budget(db_session, ada.account_id, None, Decimal(20))
    [budget] = list_states(db_session.connection(), ada.account_id, today)
    assert budget.spend_usd == Decimal("12.5")
    drop_unsent(db_session, ada.account_id, "anthropic")
    db_session.commit()
    assert "No calls yet" in words_of(ada.get("/spend"))


def test_pages_of_a_model_show_what_has_dollars_and_no_number_of_calls(
    ada: Browser, db_session: Session
) -> None:
    today = utc_now().date()
    free = {"cost_usd": Decimal(0), "list_usd": Decimal(0)}
    lines = [unsent_on(today), unsent_on(today, model="new", **free)]
    replace_unsent(db_session.connection(), ada.account_id, "anthropic", lines)
    db_session.commit()
    assert "$12.50" in words_of(ada.get("/model?model=claude-haiku-4-5&provider=anthropic"))
    assert "No calls" not in words_of(ada.get("/compare?days=7"))
    assert "Some reported tokens have no price" in words_of(ada.get("/spend"))
    drop_unsent(db_session, ada.account_id, "anthropic")
    included = [unsent_on(today, provider="cursor", **free)]
    replace_unsent(db_session.connection(), ada.account_id, "cursor", included)
    db_session.commit()
    assert "Some reported tokens have no price" not in words_of(ada.get("/spend"))


@each_case(
    ("kind", "said"),
    [
        ("seats", "$5.00 are seats."),
        ("other_fee", "$5.00 are other fees."),
        ("storage", "$5.00 is storage."),
    ],
)
def test_a_fee_is_said_in_grammatical_words(kind: str, said: str) -> None:
    projects = [Part("not_sent", Decimal(9 - number), f"proj_{number}") for number in range(4)]
    found = Reconciliation("openai", date(2026, 2, 1), parts=[Part(kind, Decimal(5))])
    found.projects = projects
    assert said in summarize(found)
    assert "$6.00 is of one other project." in summarize(found)


def _download(ada: Browser, query: str = "") -> Sequence[dict[str, str]]:
    path = f"/spend.focus.csv?from=2026-02-01&to=2026-02-28{query}"
    with ada.client.get(path) as answer:
        assert answer.status_code == 200
        return list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))


def _sum(rows: Sequence[dict[str, str]], column: str) -> Decimal:
    return sum((Decimal(row[column]) for row in rows), Decimal(0))


def test_a_download_for_finops_is_billed_to_the_cent(ada: Browser, db_session: Session) -> None:
    plant(db_session, ada.account_id, rate="0.88")
    connection = db_session.connection()
    month = reconcile(connection, ada.account_id, "openai", MONTH)
    unsent = find_unsent(connection, ada.account_id, "openai", (MONTH, date(2026, 2, 28)))
    replace_unsent(connection, ada.account_id, "openai", unsent)
    db_session.commit()
    rows = _download(ada)
    assert _sum(rows, "BilledCost") == month.billed_usd
    listed = month.reported_usd + 28 * 4
    assert _sum(rows, "ListCost") == pytest.approx(listed, abs=Decimal("0.01"))
    assert {row["x_BillStatus"] for row in rows} == {"provisional"}
    fees = [row for row in rows if row["ChargeDescription"] == "File search"]
    assert _sum(fees, "BilledCost") == 28 * 4
    parts = [_download(ada, f"&model={model}") for model in {row["SkuId"][7:] for row in rows}]
    assert sum(_sum(part, "BilledCost") for part in parts) + 28 * 4 == month.billed_usd
    lock_months(connection, ada.account_id, "openai", datetime(2026, 3, 12, tzinfo=UTC))
    db_session.commit()
    assert {row["x_BillStatus"] for row in _download(ada)} == {"reconciled"}


def test_a_download_says_where_there_is_no_bill(ada: Browser, db_session: Session) -> None:
    replace_unsent(db_session.connection(), ada.account_id, "anthropic", [unsent_on(MONTH)])
    db_session.commit()
    [row] = _download(ada)
    assert (row["BilledCost"], row["x_BillStatus"]) == ("0", "no bill")
