"""Two figures with one name are never written differently, in an account with ten million calls.

The smaller proof reads the figures of accounts that a running service has audited, in
`tests/service/cli/test_up_figures.py`.
"""

from datetime import date, timedelta
from decimal import Decimal
from functools import partial

import pytest
from flask import Flask
from flask.testing import FlaskClient
from msgspec.structs import replace
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.cli.account import mint_read_token
from service.models import Account, ReportRow
from service.models.audits.audits import Audit
from service.models.audits.results import COPIED
from service.models.base import utc_now
from service.models.watching.budgets import save_budget
from service.operations.findings.tracking import AuditedFindings, track_findings
from service.web.auth.scopes import SCOPES
from service.web.http import tables
from tests.service.support import figures
from tests.service.support.browser import Browser
from tests.service.support.scaled_reports import make_scaled_report
from tests.service.support.spend import add_spend, spend_line

_ROUTES, _DAYS, _CALLS = 400, 60, 10_000_000


def _add_calls(session: Session, account_id: str, today: date) -> Decimal:
    """Add the spend of ten million calls, and return that of the last 30 days."""
    per_line, spent = _CALLS // (_ROUTES * _DAYS), Decimal(0)
    for back in range(_DAYS):
        lines = []
        for route in range(_ROUTES):
            cost = Decimal(7 * route + back) / 13
            spent += cost.quantize(Decimal("1e-9")) if back < 30 else 0
            lines.append(
                spend_line(
                    today - timedelta(days=back),
                    f"{cost:.9f}",
                    route=f"route-{route}",
                    calls=per_line,
                )
            )
        add_spend(session, account_id, *lines)
    return spent


def _make_report(today: date, spent: Decimal) -> Report:
    report = make_scaled_report(findings=400, records=_CALLS, models=200)
    first, last = (f"{today - timedelta(days=back)}T00:00:00Z" for back in (29, 0))
    audit = replace(
        report.audit,
        first_call=first,
        last_call=last,
        total_spend_usd=spent,
        projected_spend_usd=spent,
        projection="good",
        verified_savings_usd=Decimal("1234.5"),
        estimated_savings_usd=Decimal("7654.321"),
        conditional_savings_high_usd=Decimal("99.995"),
    )
    found = (replace(each, first_seen=first, last_seen=last) for each in report.findings)
    return replace(report, audit=audit, findings=tuple(found))


@pytest.mark.stress
def test_every_figure_of_ten_million_calls_agrees(
    app: Flask, ada: Browser, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process, which writes large tables, doesn't see what this test rolls back.
    monkeypatch.setattr(tables, "LARGE_LINES", _ROUTES * _DAYS)
    today = utc_now().date()
    spent = _add_calls(db_session, ada.account_id, today)
    report = _make_report(today, spent)
    account = db_session.get_one(Account, ada.account_id)
    token = mint_read_token(db_session, account, SCOPES)
    totals = {name: getattr(report.audit, name) for name in COPIED}
    own = {"source": "account", "status": "done", "blob_key": "", "window_days": 30}
    counts = {"findings_count": 400, "priced_findings": 400, "projection": "good"}
    audit = Audit(account_id=ada.account_id, **own, **totals, **counts)
    db_session.add(audit)
    db_session.flush()
    db_session.add(ReportRow(audit_id=audit.id, document=report.to_json()))
    audited = AuditedFindings(ada.account_id, audit.id, report, [])
    track_findings(db_session.connection(), audited)
    save_budget(db_session, ada.account_id, None, Decimal("123456.78"))
    db_session.commit()
    bearer = {"Authorization": f"Bearer {token}"}

    def get(client: FlaskClient, headers: dict[str, str], path: str) -> str:
        with client.get(path, headers=headers) as answer:
            assert answer.status_code == 200, (path, answer.get_data(as_text=True))
            return answer.get_data(as_text=True)

    page, api = partial(get, ada.client, {}), partial(get, app.test_client(), bearer)
    found = figures.collect(figures.Account(page, api), today)
    assert found.disagreements == {}
    assert {"spent", "forecast", "budget", "monthly_spend", "potential_savings"} <= found.names()
    assert len(found.shared) >= 30
