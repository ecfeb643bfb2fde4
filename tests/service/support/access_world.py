"""An account with one of everything that it can own, and a caller with each kind of credential."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.core.tokens import sign_report
from service.models import (
    AgentTotal,
    Audit,
    Budget,
    ChartMark,
    IngestKey,
    NoticeDelivery,
    NoticeTarget,
    Passkey,
    Plan,
    ProviderConnection,
    ReadToken,
    ReportedCost,
    ReportRow,
    SavedView,
    WebSession,
)
from service.models.connections.bill import TOKENS
from service.reports.sample import get_sample_report
from service.web.auth.scopes import SCOPES
from tests.service.support.access_table import (
    ADMIN,
    AT_AUDITS,
    AT_BOTH,
    AT_FINDINGS,
    KEY,
    RT_AUDITS,
    RT_BOTH,
    RT_FINDINGS,
    SESSION,
    TABLE,
)
from tests.service.support.findings import add_account_finding
from tests.service.support.oauth_flow import add_application, add_token
from tests.service.support.scenes import (
    ADMIN_TOKEN,
    SECRET_KEY,
    Caller,
    Sessions,
    Tenant,
    add_browser,
    add_tenant,
    bearer,
)


@dataclass(frozen=True)
class World:
    """A tenant, one of everything that it can own, and each kind of its credentials."""

    ids: dict[str, str]
    callers: dict[str, Caller]


def make_world(sessions: Sessions, label: str = "x") -> World:
    """Add an account whose things have this label."""
    tenant = add_tenant(sessions)
    application = add_application(sessions, tenant.account_id)
    scopes = {RT_AUDITS: SCOPES[:1], RT_FINDINGS: SCOPES[1:], RT_BOTH: SCOPES}
    allowed = {AT_AUDITS: SCOPES[:1], AT_FINDINGS: SCOPES[1:], AT_BOTH: SCOPES}
    callers = {
        "none": Caller({}),
        KEY: Caller(tenant.writes),
        ADMIN: Caller({"X-Admin-Token": ADMIN_TOKEN}),
        SESSION: add_browser(sessions, tenant.account_id),
    }
    for name, some in scopes.items():
        callers[name] = Caller(bearer(_add_read_token(sessions, tenant, some)))
    for name, some in allowed.items():
        token = add_token(sessions, application, tenant.account_id, tuple(some))
        callers[name] = Caller(bearer(token))
    ids = _add_things(sessions, tenant, label)
    return World({**ids, "application_id": application.id}, callers)


def _add_read_token(sessions: Sessions, tenant: Tenant, scopes: tuple[str, ...]) -> str:
    with sessions() as session:
        row, token = ReadToken.minted(tenant.account_id, scopes=scopes)
        session.add(row)
        session.commit()
        return token


def _add_things(sessions: Sessions, tenant: Tenant, label: str) -> dict[str, str]:
    owned = {"account_id": tenant.account_id}
    with sessions() as session:
        audit = Audit(source="ingest", blob_key="raw/x.jsonl", status="done", **owned)
        other_browser, _ = WebSession.minted(tenant.account_id, days=30)
        passkey = Passkey(
            name=label, credential_id=tenant.account_id.encode(), sign_count=0, **owned
        )
        passkey.public_key = b""
        url = "https://example.com/"
        target = NoticeTarget(kind="webhook", url=url, secret="x", events=[], label=label, **owned)
        budget = Budget(amount_usd=5, **owned)
        texts = dict.fromkeys(("route", "model", "fix"), label)
        finding = add_account_finding(session, tenant.account_id, **texts)
        view = SavedView(page="/spend", name=label, query="", **owned)
        plan = Plan(name=label, provider="codex", price_usd=5, seats=1, **owned)
        plan.first_day = date(2026, 1, 1)
        mark = ChartMark(day=date(2026, 3, 1), words=label, **owned)
        connection = ProviderConnection(provider="openai", label=label, **owned)
        session.add_all([audit, other_browser, passkey, target, budget, plan])
        session.add_all([view, mark, connection])
        session.flush()
        session.add(make_cost(tenant.account_id, connection.id, date(2026, 2, 1)))
        counts = dict.fromkeys((*TOKENS, "estimated_usd"), 1)
        total = AgentTotal(agent="codex", day=date(2026, 2, 1), model="x", **counts, **owned)
        session.add(total)
        session.add(ReportRow(audit_id=audit.id, document=get_sample_report()))
        delivery = NoticeDelivery(target_id=target.id, event_id="x", event_type="test", payload={})
        session.add(delivery)
        session.commit()
        key = session.query(IngestKey).filter_by(**owned).one()
        token = session.query(ReadToken).filter_by(**owned).first()
        assert token is not None
        return {
            "audit_id": audit.id,
            "session_id": other_browser.id,
            "account_id": tenant.account_id,
            "passkey_id": passkey.id,
            "target_id": target.id,
            "budget_id": budget.id,
            "plan_id": plan.id,
            "view_id": view.id,
            "mark_id": mark.id,
            "finding_id": finding.id,
            "delivery_id": delivery.id,
            "connection_id": connection.id,
            "agent": "codex",
            "provider": "openai",
            "month": "2026-02",
            "key_id": key.id,
            "token_id": token.id,
            "token": sign_report(SECRET_KEY, audit.id),
            "path:filename": "tallystick.css",
        }


def make_cost(account_id: str, connection_id: str, day: date) -> ReportedCost:
    labels = {name: "" for name in ("project_id", "key_id", "model", "line_item")}
    days = {"bucket_at": datetime.combine(day, time(), UTC), "day": day}
    own = {"account_id": account_id, "connection_id": connection_id, "report": "costs"}
    return ReportedCost(**own, **labels, **days, kind="seats", amount=1, currency="USD")


def ask(
    client: FlaskClient,
    route: tuple[str, str],
    caller: Caller,
    ids: Mapping[str, str],
    query: str = "",
) -> TestResponse:
    path, options = request_for(route, caller, ids)
    response = client.open(path + query, method=route[0], **options)
    response.get_data()  # kept, while the file that it may come from is closed
    response.close()
    return response


def request_for(
    route: tuple[str, str], caller: Caller, ids: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """The path, and the body and headers by their names in the test client and in `requests`."""
    path = route[1]
    for name, value in ids.items():
        path = path.replace(f"<{name}>", value)
    options = dict(TABLE[route].body or {})
    if "form" in options:
        options["data"] = {**options.pop("form"), "csrf_token": caller.csrf_token}
    elif route == ("POST", "/upload"):
        options["data"] = {"file": (b"", "x"), "csrf_token": caller.csrf_token}
    return path, options | {"headers": {**caller.headers, "X-Request-Id": "5a" * 16}}
