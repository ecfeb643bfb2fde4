"""Two accounts with the same metered calls, one with many calls of plans, too: the same money."""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace
from sqlalchemy import Engine, delete, func, select
from sqlalchemy.orm import Session, sessionmaker

from detectors.contract import UsageRecord
from service.cli.account import mint_read_token
from service.config import Config
from service.mail.messages import compose
from service.models import Account, CallFile, Mail, PlanRow, SpendRow
from service.models.base import utc_now
from service.models.calls.account_audits import queue_account_audit
from service.models.calls.future_calls import delete_future_calls, sum_future_calls
from service.models.calls.stored_prices import list_models
from service.models.watching.budgets import save_budget
from service.operations.watching.daily_watch import check_budgets, watch_days
from service.operations.watching.weekly_digest import summarize_week
from service.reports.pdf import print_pdf
from service.web.auth.scopes import SCOPES
from tests.detectors.report.test_plan_usage import METERED, WASTE
from tests.lazily import pypdf
from tests.service.support.applications import make_application
from tests.service.support.browser import Browser
from tests.service.support.scenes import Sessions, add_account, bearer
from tests.worker.support.stored import document
from worker import compact_calls, run_audit

EMAILS = ("worker@example.com", "both@example.com")
PAGES = (
    *("/dashboard", "/dashboard?route=route", "/spend", "/spend?group=model", "/findings"),
    *("/compare?days=7", "/route?route=route", "/model?model=gpt-4.1", "/settings/budgets"),
)
TABLES = ("/spend.csv", "/spend.csv?daily=1", "/spend.focus.csv", "/spend.xlsx?daily=1")
CALLS = (
    *("/api/v1/spend?group_by=day,route,model", "/api/v1/spend?format=csv"),
    *("/api/v1/spend?format=focus", "/api/v1/compare", "/api/v1/findings", "/api/v1/audits"),
)
_SECTION = re.compile(r'<h2 id="plan-usage">.*?(?=<h[23] id=|</main>)', re.DOTALL)


class Owner(NamedTuple):
    """An account, its audits, and how it reads them."""

    account_id: str
    browser: Browser
    token: str
    audits: Sequence[str]


def lately(records: Sequence[UsageRecord]) -> list[UsageRecord]:
    """Return the calls with the same gaps, the last of METERED an hour ago."""
    shift = utc_now() - timedelta(hours=1) - max(record.ts for record in METERED)
    return [replace(record, ts=record.ts + shift) for record in records]


@pytest.fixture
def owners(
    engine: Engine, config: Config, store: Callable[..., str], account_id: str
) -> Iterator[Sequence[Owner]]:
    """The account with metered calls alone, and the other."""
    sessions = sessionmaker(engine, expire_on_commit=False)
    app = make_application(config, sessions)
    metered, plans = lately(METERED), lately(WASTE)
    with sessions() as session:
        other = add_account(session, email=EMAILS[1])
        session.commit()
        ids = (account_id, other.id)
    try:
        yield [
            _import(app, sessions, owner_id, email, logs, store)
            for owner_id, email, logs in zip(
                ids, EMAILS, ([metered], [metered, plans]), strict=True
            )
        ]
    finally:
        with engine.begin() as connection:
            connection.execute(delete(Account).where(Account.email == EMAILS[1]))


def _import(
    app: Any,
    sessions: Sessions,
    account_id: str,
    email: str,
    logs: Sequence[Sequence[UsageRecord]],
    store: Callable[..., str],
) -> Owner:
    """Upload all calls as one log, and audit the account."""
    with sessions() as session:
        account = session.get_one(Account, account_id)
        account.report_mails = "each"
        save_budget(session, account_id, None, Decimal(1))
        token = mint_read_token(session, account, tuple(SCOPES))
        session.commit()
    upload = store([call for log in logs for call in log], "upload", account_id)
    run_audit(upload)
    compact_calls(account_id)
    with sessions() as session:
        audit_id = queue_account_audit(session.connection(), account_id, 30)
        session.commit()
    assert audit_id is not None
    run_audit(audit_id)
    return Owner(account_id, Browser(app, sessions, email), token, (upload, audit_id))


def money(page: str) -> list[str]:
    """Return all dollars of a page or a text, without its section on plan usage."""
    shown = unescape(re.sub("<[^>]+>", "\n", _SECTION.sub("", page)))
    return re.findall(r"\$[\d,.]*\d", shown)


def rows_of(client: FlaskClient, path: str, account_id: str) -> str:
    with client.get(path) as response:
        assert response.status_code == 200
        if not path.startswith("/spend.xlsx"):
            return response.get_data(as_text=True).replace(account_id, "")
        book = zipfile.ZipFile(io.BytesIO(response.data))
    return book.read("xl/worksheets/sheet1.xml").decode()


def figures_of(answer: Any) -> Any:
    """Return what an answer of the API has but for plan usage, counts of records, IDs and times."""
    if isinstance(answer, dict):
        return {
            name: figures_of(value)
            for name, value in answer.items()
            if name not in ("plan_usage", "included_calls", "records", "equiv_spend")
            and not name.endswith(("_at", "id", "_on", "url"))
        }
    return list(map(figures_of, answer)) if isinstance(answer, list) else answer


def _read(client: FlaskClient, path: str, owner: Owner) -> Any:
    """Return what the API answers to an account."""
    with client.get(path, headers=bearer(owner.token)) as answer:
        assert answer.status_code == 200
        if answer.is_json:
            return figures_of(answer.json)
        return answer.get_data(as_text=True).replace(owner.account_id, "")


def test_nothing_mixes_money_and_value(
    owners: Sequence[Owner], engine: Engine, config: Config
) -> None:
    """One test, because importing and auditing the calls takes most of its time."""
    own, both = owners
    for path in PAGES:
        pages = [owner.browser.get(path) for owner in owners]
        assert money(pages[0]), path
        assert money(pages[1]) == money(pages[0]), path
        assert f"From {len(METERED)} calls" in pages[1] or not path.startswith("/dashboard")
        is_shown = path.startswith(("/dashboard", "/spend", "/route", "/model"))
        assert ('id="plan-usage"' in pages[1]) is is_shown, path
        assert 'id="plan-usage"' not in pages[0]
    for path in TABLES:
        tables = [rows_of(owner.browser.client, path, owner.account_id) for owner in owners]
        assert tables[0] == tables[1], path
    client = own.browser.client
    for path in CALLS:
        answers = [_read(client, path, owner) for owner in owners]
        assert answers[0] == answers[1], path
    usage, none = (
        json.loads(client.get("/api/v1/spend", headers=bearer(owner.token)).data)["plan_usage"]
        for owner in (both, own)
    )
    assert usage["calls"] == len(WASTE)
    assert usage["value_usd"] > 0
    assert set(none.values()) == {0}
    # Reports and mails.
    for audits in zip(*(owner.audits for owner in owners), strict=True):
        pages = [
            owner.browser.get(f"/audits/{audit_id}")
            for owner, audit_id in zip(owners, audits, strict=True)
        ]
        assert money(pages[1]) == money(pages[0]) != []
        assert 'id="plan-usage"' in pages[1]
        documents = [document(engine, audit_id) for audit_id in audits]
        assert all(documents)
        files = [io.BytesIO(print_pdf(content)) for content in documents if content]
        prints = [
            "\n".join(page.extract_text() for page in pypdf.PdfReader(file).pages) for file in files
        ]
        assert money(prints[1].partition("Plan usage")[0]) == money(
            prints[0].partition("Data quality")[0]
        )
        after = [shown.partition("Data quality")[2] for shown in prints]
        assert money(after[0]) == money(after[1]) != []
        answers = [
            owners[0].browser.client.get(f"/api/v1/audits/{audit_id}", headers=bearer(owner.token))
            for owner, audit_id in zip(owners, audits, strict=True)
        ]
        assert figures_of(answers[0].json) == figures_of(answers[1].json)
    mails = [_mails(engine, config, owner.account_id) for owner in owners]
    assert money(mails[1]) == money(mails[0]) != []
    # Plan usage follows the files of its calls.
    with Session(engine) as session:
        costs = [
            session.scalar(select(func.sum(SpendRow.cost_usd)).where(SpendRow.account_id == each))
            for each in (own.account_id, both.account_id)
        ]
        calls = select(func.sum(PlanRow.calls)).where(PlanRow.account_id == both.account_id)
        assert (costs[0], session.scalar(calls)) == (costs[1], len(WASTE))
        file_id = session.scalars(
            select(PlanRow.file_id).where(PlanRow.account_id == both.account_id)
        ).first()
        assert file_id is not None
        assert ("claude-code", "claude-opus-4-5") in list_models(session.connection(), file_id)
        # Calls dated after today are deleted with the others, whatever they cost.
        today = utc_now().date() - timedelta(days=3)
        first, second = (
            sum_future_calls(session, owner.account_id, today) for owner in (own, both)
        )
        assert first.cost_usd == second.cost_usd > 0
        assert second.calls > first.calls
        days = (today, today + timedelta(days=30))
        assert delete_future_calls(session, both.account_id, today, days) == second.calls
        session.rollback()
        session.execute(delete(CallFile).where(CallFile.account_id == both.account_id))
        assert session.scalar(calls) is None
        session.rollback()


def _mails(engine: Engine, config: Config, account_id: str) -> str:
    """Return the texts of all mails of an account, those of budgets and of its weeks, too."""
    now = utc_now()
    today = now.date()
    with engine.begin() as connection:
        weeks = [
            str(summarize_week(connection, account_id, today - timedelta(days=back), utc_now()))
            for back in (-1, 0, 7)
        ]
    with engine.connect() as connection:
        watch_days(connection, now)
        check_budgets(connection, now)
    with Session(engine) as session:
        found = session.scalars(
            select(Mail).where(Mail.account_id == account_id).order_by(Mail.created_at)
        ).all()
        texts = [compose(config, each).as_string() for each in found]
    assert len(texts) >= 2
    # The value of plan usage has a sentence of its own, which is no sum of money.
    amounts = re.findall(r"'((?!plan_)[a-z_]*usd)': (?:'([\d.]+)'|None)", " ".join(weeks))
    return "\n".join([*texts, *(f"${amount}" for _, amount in amounts if amount)])
