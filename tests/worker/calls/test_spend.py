"""Spend adds up to the audit of the same calls, whatever it is grouped by."""

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.models.calls.spend import KEYS, Selection, sum_spend
from tests.worker.calls.test_account_audits import audit_account, body, records, report_of


def test_spend_by_each_key_adds_up_to_the_account_audit(
    engine: Engine, account_id: str, publish: Callable[[bytes], str]
) -> None:
    calls = records()
    publish(body(calls[:250]))
    publish(body(calls[200:]))  # fifty calls come again; the account's audit merges them
    report = report_of(engine, audit_account(engine, account_id).id)
    expected: dict[str, dict[str, Decimal]] = {name: defaultdict(Decimal) for name in KEYS}
    for day in report.spend_by_day:
        expected["day"][day.day] += day.spend_usd
    for route in report.spend_by_route:
        expected["route"][route.route] += route.spend_usd
    for model in report.spend_by_model:
        expected["model"][model.model] += model.spend_usd
        expected["provider"][model.provider] += model.spend_usd
    expected["environment"][""] = report.audit.total_spend_usd
    first, last = calls[0].ts.date() - timedelta(days=1), calls[-1].ts.date()
    for name in KEYS:
        wanted = Selection(first=first, last=last, keys=(name,))
        with Session(engine) as session:
            spend = sum_spend(session, account_id, wanted, limit=200)
        assert spend.totals.calls == report.audit.records == len(calls)
        assert spend.totals.cost_usd == report.audit.total_spend_usd > 0
        assert {str(line.key[0]): line.sums.cost_usd for line in spend.groups} == expected[name]
