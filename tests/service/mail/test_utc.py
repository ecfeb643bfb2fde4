"""Every mail and notice with a day in it says that it is in UTC."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from service.config import Config
from service.mail.messages import compose
from service.models.mail.outbox import Mail
from service.models.mail.report_mails import REPORT_DIGEST, WEEKLY_DIGEST
from service.models.watching.budgets import FORECAST
from service.models.watching.news import SPEND_NOTICE
from service.operations.watching.budgets import BudgetState
from service.operations.watching.unusual_days import ACCOUNT, Band, UnusualSpend
from service.operations.watching.wording import describe_budget, describe_day
from tests.cases import each_case

BUDGET = {"route": None, "month": "2026-11-01", "amount_usd": "10", "spend_usd": "9"}
DAY = {"day": "2026-11-23", "routes": 1, "models": 0, "spend_usd": 9.0, "expected_usd": 1.0}
WEEK = {"first": "2026-11-16", "last": "2026-11-22", "spend_usd": "5", "previous_usd": "4"}
COUNTS: dict[str, Any] = {"new": 0, "returned": 0, "fixed": 0, "realized_usd": None, "findings": []}
PARAMETERS: dict[str, dict[str, Any]] = {
    SPEND_NOTICE: {"days": [DAY], "budgets": [{**BUDGET, "forecast_usd": "12"}]},
    WEEKLY_DIGEST: {**WEEK, **COUNTS, "budgets": [{**BUDGET, "forecast_usd": None}]},
    REPORT_DIGEST: {
        **{"since": "2026-11-22", "day": "2026-11-22", "audits": 1, "records": 5},
        **{"spend_usd": "5", "listed": []},
    },
}


@each_case("kind", PARAMETERS)
def test_a_mail_with_days_says_utc(config: Config, kind: str) -> None:
    mail = Mail(
        id="m",
        kind=kind,
        recipient="ada@example.org",
        parameters=PARAMETERS[kind],
        created_at=datetime(2026, 11, 24, 9, tzinfo=UTC),
    )
    for part in ("plain", "html"):
        body = compose(config, mail).get_body((part,))
        assert body is not None
        assert "2026" in body.get_content()
        assert "UTC" in body.get_content()


def test_a_notice_with_days_says_utc() -> None:
    band = Band(expected=Decimal(1), upper=Decimal(2))
    for scope, name in ((ACCOUNT, ""), ("route", "chat")):
        found = UnusualSpend(scope=scope, name=name, usd=Decimal(9), band=band)
        assert "on Nov 23, 2026 (UTC)." in describe_day(date(2026, 11, 23), [found])["summary"]
    state = BudgetState(
        budget_id="b",
        route=None,
        amount_usd=Decimal(10),
        month=date(2026, 11, 1),
        today=date(2026, 11, 20),
        spend_usd=Decimal(9),
        forecast_usd=Decimal(12),
    )
    for threshold in ("80", FORECAST):
        assert "for Nov 2026 (UTC)." in describe_budget(state, threshold)["summary"]
