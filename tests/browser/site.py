"""The whole service as a browser uses it, and an account with some of everything."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import requests
from sqlalchemy.orm import Session

from detectors.contract import Report, Traffic, TrafficWindow
from service.app import create_app
from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_session_factory
from service.core.tokens import Kind, derive, sign_report
from service.models import (
    Account,
    AgentTotal,
    Audit,
    ConnectionPull,
    Credit,
    FindingChange,
    FindingRecord,
    FindingSaving,
    IngestKey,
    NoticeDelivery,
    Passkey,
    Payment,
    Plan,
    ProviderConnection,
    ReadToken,
    ReportLink,
    ReportRow,
    Subscription,
)
from service.models.audits.blob_keys import calls_key, frame_key
from service.models.base import new_id, utc_now
from service.models.calls.account_findings import DISMISSED, FIXED, OPEN, STATES, AccountFinding
from service.models.calls.traffic import replace_traffic
from service.models.identity.passkeys import add_pending_sign_in, replace_recovery_codes
from service.models.identity.security_events import EventKind, add_security_event
from service.models.identity.sign_in import add_magic_link, open_account
from service.models.imports.span_batches import SpanBatch
from service.models.notices.events import REPORT_READY
from service.models.notices.targets import SLACK, WEBHOOK, NewTarget, add_target
from service.models.watching.budgets import save_budget
from service.reports.sample import get_sample_report
from service.web.auth.browsers import SESSION_COOKIE
from service.web.http.paths import is_api_path
from tests.service.payments.providers import SETTINGS
from tests.service.support.bills import MONTH, plant
from tests.service.support.oauth_flow import Application, add_application
from tests.service.support.scenes import ADMIN_TOKEN, Sessions, add_account, sign_in, signed_cookie
from tests.service.support.spend import add_plan_usage, add_spend, spend_line
from tests.service.web.pages.scenes import add_finding, add_run
from tests.smtp_sink import Sink
from tests.worker.support.system import System

RICH, NEW, LEAVING, LONG_SIGNED_IN, PENDING = (
    f"{name}@example.org" for name in ("rich", "new", "leaving", "long-signed-in", "pending")
)
# Younger than a recent sign-in may be, with time left to use it.
_COOKIE_SECONDS: Final = 600.0
_DELIVERIES: Final[dict[str, dict[str, Any]]] = {
    "queued": {"attempts": 3, "error": "TimeoutError"},
    "delivered": {"attempts": 1, "status_code": 204},
    "failed": {"attempts": 12, "error": "given up", "status_code": 503},
}
# Longer than a line on a phone, without any character to break at.
_LONG_LABEL: Final = "a-service-with-a-name-of-its-own-" * 5


class BrowsedSystem(System):
    """Under the address that it has: what it mails and shows leads back to it."""

    host = "localhost"  # passkeys need a name

    @property
    def environment(self) -> dict[str, str]:
        more = {"BASE_URL": self.base_url, "ADMIN_TOKEN": ADMIN_TOKEN}
        # Nobody listens there: no test asks a provider.
        more["CONNECTION_URLS"] = "openai=http://127.0.0.1:9, anthropic=http://127.0.0.1:9"
        return {**super().environment, **more, "NOTICES_PRIVATE_TARGETS": "on"}


@dataclass(frozen=True)
class Site:
    """The service with its mail server, and what its addresses name."""

    system: BrowsedSystem
    sink: Sink
    done: str
    failed: str
    queued: str
    processing: str
    broken: str  # an audit whose report nobody can read: its pages are answered with 500
    waiting: str
    application: Application
    report_token: str
    waiting_token: str
    link_token: str
    open_finding: str
    fixed_finding: str
    connection: str
    cookies: dict[str, tuple[float, dict[str, str]]] = field(default_factory=dict)
    responses: dict[str, requests.Response] = field(default_factory=dict)

    @property
    def sessions(self) -> Sessions:
        return make_session_factory(self.system.engine)

    @property
    def secret_key(self) -> str:
        return self.system.environment["SECRET_KEY"]

    def cookie(self, email: str) -> dict[str, str]:
        """That of a browser signed in with this address, as Playwright takes it."""
        made_at, cookie = self.cookies.get(email, (0.0, {}))
        if not cookie or email == LEAVING or time.monotonic() - made_at > _COOKIE_SECONDS:
            if email == PENDING:
                value = _await_passkey(self.sessions, self.secret_key)
            else:
                is_old = email == LONG_SIGNED_IN
                pair = sign_in(self.sessions, email, self.secret_key, hours_ago=is_old)["Cookie"]
                value = pair.partition("=")[2]
            cookie = {"name": SESSION_COOKIE, "value": value}
            self.cookies[email] = (time.monotonic(), cookie)
        return cookie


def fill(system: BrowsedSystem, sink: Sink) -> Site:
    """Accounts with everything that a page can show, and one with nothing."""
    sessions = make_session_factory(system.engine)
    secret_key = system.environment["SECRET_KEY"]
    account_id = _open_account(sessions, RICH)
    report = Report.from_json(get_sample_report())
    done = _add_done(sessions, account_id, report)
    with sessions() as session:
        for add in (
            *(_pay, _add_activity, _add_spend, _add_plan_usage),
            *(_add_passkeys, _add_targets, _add_budgets),
        ):
            add(session, account_id)
        connection = _add_connections(session, account_id)
        session.commit()
    _add_imports(sessions, account_id)
    audit_id = _add_audit_of_findings(system, account_id, report)
    finding_ids = _add_findings(sessions, account_id, audit_id)
    broken = add_run(sessions, account_id, source="ingest")
    with sessions() as session:
        session.add(ReportRow(audit_id=broken, document=b"{"))
        session.commit()
    waiting = add_run(sessions, account_id, status="processing", valid_pct=99.5, records=10)
    return Site(
        system=system,
        sink=sink,
        done=done,
        failed=add_run(
            sessions, account_id, status="failed", error="2 of 10 rows could be read: too few."
        ),
        # Its wake-up is still to come, so the sweeper leaves it where it is.
        queued=add_run(
            sessions, account_id, status="queued", enqueued_at=utc_now() + timedelta(days=1)
        ),
        processing=add_run(sessions, account_id, status="processing", records=1_234_567),
        broken=broken,
        waiting=waiting,
        application=add_application(sessions, account_id),
        report_token=sign_report(secret_key, done),
        waiting_token=sign_report(secret_key, waiting),
        link_token=add_link(sessions, secret_key, "grace@example.org"),
        open_finding=finding_ids[OPEN],
        fixed_finding=finding_ids[FIXED],
        connection=connection,
    )


def _add_imports(sessions: Sessions, account_id: str) -> None:
    """Batches of two clients, a file uploaded twice, an audit of the account, and waiting spans."""
    noon = datetime(2026, 10, 3, 12, tzinfo=UTC)
    done: dict[str, Any] = {"records": 50, "total_spend_usd": Decimal("1.25"), "source": "ingest"}
    clients = [("production", "eu"), ("production", "eu"), ("production", "us"), (None, None)]
    for number, (client, environment) in enumerate(clients):
        sent: dict[str, Any] = {"client": client, "environment": environment}
        at = noon + timedelta(minutes=number)
        add_run(sessions, account_id, created_at=at, **sent, **done)
    failed: dict[str, Any] = {
        "status": "failed",
        "error": "Your records are stored.",
        "client": "production",
    }
    add_run(sessions, account_id, created_at=noon, source="ingest", **failed)
    file: dict[str, Any] = {"content_hash": b"of the file", "records": 9_966}
    add_run(sessions, account_id, created_at=noon, label="September, all teams", **file)
    add_run(sessions, account_id, created_at=noon + timedelta(days=1), **file)
    window: dict[str, Any] = {"window_days": 30, "records": 10_116}
    add_run(sessions, account_id, created_at=noon, source="account", **window)
    with sessions() as session:
        row = SpanBatch(account_id=account_id, calls=1_200, size=1, lines=b"x", keys=b"", links=b"")
        row.received_at = utc_now() + timedelta(days=1)  # so that no sweeper imports them
        session.add(row)
        session.commit()


def _add_audit_of_findings(system: System, account_id: str, report: Report) -> str:
    """An audit of the account, with the calls of a finding as a worker leaves them."""
    sessions, at = make_session_factory(system.engine), utc_now() - timedelta(days=8)
    own: dict[str, Any] = {"source": "account", "window_days": 30, "blob_key": ""}
    audit_id = add_run(sessions, account_id, report, created_at=at, finished_at=at, **own)
    add_finding(sessions, audit_id, 1, 9, id="d2-001", detector="d2_missed_caching")
    blobs = BlobStore.from_url(system.environment["STORAGE_URL"])
    for ending in ("csv", "xlsx"):
        blobs.put(calls_key(frame_key(audit_id, 0), "d2-001", ending), b"request_id,saving_usd")
    return audit_id


def _add_findings(sessions: Sessions, account_id: str, audit_id: str) -> dict[str, str]:
    """A finding of the account in every state, one of them with labels that are long."""
    now, ids = utc_now(), dict[str, str]()
    with sessions() as session:
        for number, state in enumerate(STATES):
            finding = AccountFinding(
                account_id=account_id,
                identity=state.encode(),
                detector="d2_missed_caching",
                kind="uncached_prefix",
                route=_LONG_LABEL if state == OPEN else "support-bot",
                provider="openai",
                model="gpt-4o",
                state=state,
                audit_id=audit_id,
                finding_id="d2-001",
                severity="high",
                confidence="ESTIMATED",
                fix="Put the part of the prompt that repeats first.",
                calls=100,
                monthly_usd=Decimal(10 ** (5 - number)),
                observed_usd=Decimal(1),
                is_monthly=state != OPEN,
                first_seen=now - timedelta(days=40),
                last_seen=now - timedelta(days=number),
                fixed_at=now - timedelta(days=20) if state == FIXED else None,
                silent_until=now + timedelta(days=60) if state == DISMISSED else None,
                assignee=_LONG_LABEL[:120] if state == OPEN else "",
                note="One line,\nand another.",
            )
            session.add(finding)
            session.flush()
            ids[state] = finding.id
            _add_life(session, finding)
        session.commit()
    return ids


def _add_life(session: Session, finding: AccountFinding) -> None:
    """The finding in audits of the account, what it cost before its fix, and changes."""
    now = utc_now()
    for number in range(5):
        at, run = now - timedelta(days=7 * (5 - number)), new_id()
        figures = {"calls": 50, "monthly_usd": Decimal(300 + number), "observed_usd": Decimal(9)}
        row = Audit(id=run, account_id=finding.account_id, source="account", status="done")
        row.created_at, row.finished_at, row.blob_key, row.window_days = at, at, "", 30
        session.add(row)
        session.add(FindingRecord(account_finding_id=finding.id, audit_id=run, **figures))
    for back in range(20, 34):
        day = (now - timedelta(days=back)).date()
        saving = FindingSaving(account_finding_id=finding.id, day=day, calls=3)
        saving.saving_usd = Decimal(2)
        session.add(saving)
    for name, after in (("state", finding.state), ("assignee", _LONG_LABEL[:120]), ("note", "x")):
        change = FindingChange(account_finding_id=finding.id, changed_by=RICH, field=name)
        change.before, change.after = OPEN if name == "state" else "", after
        change.reason = _LONG_LABEL[:60] if name == "state" else ""
        session.add(change)


def _add_passkeys(session: Session, account_id: str) -> None:
    for number, name in enumerate(("Laptop", _LONG_LABEL[:60])):
        passkey = Passkey(account_id=account_id, name=name, public_key=b"", sign_count=0)
        passkey.credential_id = f"{account_id}{number}".encode()
        passkey.last_used_at = utc_now() if number == 0 else None
        session.add(passkey)
    replace_recovery_codes(session, account_id)


def _add_connections(session: Session, account_id: str) -> str:
    """One that works, with one month of reports, and one whose key was revoked; its ID."""
    now = utc_now()
    connection_id = plant(session, account_id, rate="0.88", sends=False)
    works = session.get_one(ProviderConnection, connection_id)
    works.next_pull_at, works.pulled_at = None, now
    failing = ProviderConnection(account_id=account_id, provider="anthropic")
    failing.organization, failing.label = "Acme", _LONG_LABEL[:60]
    failing.sight = {"organization": "Acme", "projects": 3, "first_cost": "2025-08-01"}
    failing.error, failing.failing_since, failing.next_pull_at = "revoked", now, None
    session.add(failing)
    session.flush()
    agent = AgentTotal(account_id=account_id, agent="claude-code", day=MONTH)
    agent.model, agent.estimated_usd = "claude-sonnet-4-6", Decimal("3.12")
    agent.prompt_tokens, agent.completion_tokens = 1_180_000, 60_000
    agent.cached_tokens = agent.cache_write_tokens = 0
    session.add(agent)
    owner = {"account_id": account_id, "connection_id": failing.id, "report": "messages"}
    for number, outcome in enumerate(("done", "empty", "revoked")):
        first = now - timedelta(days=31 * (3 - number))
        pull = ConnectionPull(**owner, first_at=first, rows=1_234, requests=1, outcome=outcome)
        pull.began_at, pull.last_at = now, now if number else None
        session.add(pull)
    return failing.id


def _add_budgets(session: Session, account_id: str) -> None:
    """One that is spent, one with room, and one of a route with a long name."""
    for route, amount in ((None, "20"), ("search", "900"), (_LONG_LABEL[:200], "300")):
        save_budget(session, account_id, route, Decimal(amount))


def _add_targets(session: Session, account_id: str) -> None:
    """Targets and deliveries in every state."""
    now = utc_now()
    for kind, label in ((SLACK, "#llm-spend"), (WEBHOOK, _LONG_LABEL[:60]), (WEBHOOK, "")):
        url = f"https://{'hooks.slack.com' if kind == SLACK else 'hooks.example.com'}/x"
        target = add_target(session, account_id, NewTarget(kind, url, [REPORT_READY], label))
        for number, (status, values) in enumerate(_DELIVERIES.items()):
            if status == "queued" and not label:
                continue  # it is disabled below
            delivery = NoticeDelivery(target_id=target.id, payload={}, status=status, **values)
            delivery.event_id, delivery.event_type = f"evt_{number}", REPORT_READY
            delivery.created_at = now - timedelta(hours=number)
            delivery.next_attempt_at = now + timedelta(hours=4)
            delivery.delivered_at = now if status == "delivered" else None
            session.add(delivery)
    target.disabled_at, target.disabled_reason = now, "failing"


def _add_plan_usage(session: Session, account_id: str) -> None:
    """November of two people's coding agents, in the past, and two plans."""
    lines = [
        spend_line(
            date(2025, 11, day), f"{day * 1.37:.2f}", hour=hour, provider=tool, route=route,
            model=model, environment=person, prompt_tokens=80_000 * day, cached_tokens=70_000 * day,
        )
        for day in range(3, 29)
        for hour, tool, route, model, person in (
            (9, "claude-code", "boats", "claude-opus-4-6", "ada"),
            (15, "claude-code", _LONG_LABEL, "claude-sonnet-4-6", "ada"),
            (11, "codex", "tides", "gpt-5.4", "bob"),
            (20, "claude-code", "", "claude-sonnet-4-6", ""),
        )
    ]  # fmt: skip
    add_plan_usage(session, account_id, *lines)
    for name, tool, price, seats in (("Max", "claude-code", 100, 2), ("Pro", "codex", 20, 1)):
        own = Plan(name=name, provider=tool, price_usd=price, seats=seats)
        own.account_id, own.first_day = account_id, date(2025, 1, 1)
        session.add(own)


def _add_spend(session: Session, account_id: str) -> None:
    """Two months of a few routes, more of them than a chart has colors for."""
    today = utc_now().date()
    routes = ("support-bot", _LONG_LABEL, "summaries", "", "search", "=SUM(A1)", "nightly")
    lines = [
        spend_line(today - timedelta(days=back), str(9 - at + back % 7), route=route)
        for back in range(60)
        for at, route in enumerate(routes)
    ]
    unpriced = spend_line(today, "0", model="mystery", unpriced_calls=10, environment="")
    future = [
        spend_line(today + timedelta(days=days), "0.02", route=route)
        for days, route in ((2, "support-bot"), (2, _LONG_LABEL), (2_700, ""))
    ]
    hours = [(at * 7) % 40 for at in range(24)]
    traffic = [
        Traffic(
            route="support-bot",
            provider="openai",
            model=model,
            calls=sum(hours),
            hours=hours,
            latencies={94: 300, 186: 20},
        )
        for model in ("gpt-5.5", _LONG_LABEL)
    ]
    now = utc_now()
    window = TrafficWindow(first_call=now - timedelta(days=30), last_call=now, traffic=traffic)
    add_spend(session, account_id, *lines, unpriced, *future)
    replace_traffic(session.connection(), account_id, window)


def _await_passkey(sessions: Sessions, secret_key: str) -> str:
    """The cookie of a browser whose sign-in link was used, and whose passkey is awaited."""
    with sessions() as session:
        account = open_account(session, PENDING)
        secret = add_pending_sign_in(
            session, account.id, challenge=b"x" * 64, next_path="/dashboard"
        )
        session.commit()
    return signed_cookie({"pending": secret}, secret_key)


def add_link(sessions: Sessions, secret_key: str, email: str) -> str:
    """What a link to sign in ends with that lasts as long as the tests do."""
    with sessions() as session:
        link = add_magic_link(session, email, secret_key, minutes=600, next_path=None)
        session.commit()
        return derive(Kind.MAGIC_LINK, secret_key, link.id)[0]


def account_of(site: Site, email: str) -> str:
    with site.sessions() as session:
        return session.query(Account).filter_by(email=email).one().id


def make_config(system: System) -> Config:
    return Config.from_environment(system.environment)


def list_routes(system: System) -> set[str]:
    """Every route that answers GET, from the application itself; under the API's is no page."""
    rules = create_app(make_config(system)).url_map.iter_rules()
    reading = {rule.rule for rule in rules if "GET" in (rule.methods or ())}
    return {rule for rule in reading if not is_api_path(rule)}


def _open_account(sessions: Sessions, email: str) -> str:
    with sessions() as session:
        paid = Subscription(plan="team", status="active", provider="stripe")
        account = add_account(session, email=email, subscriptions=[paid])
        for label in ("billing-service", _LONG_LABEL[:60], ""):
            key, _ = IngestKey.minted(account.id, label=label)
            key.last_used_at = utc_now() if label else None
            session.add(key)
        scopes = ("read:audits", "read:findings")
        session.add(ReadToken.minted(account.id, scopes=scopes, label="spreadsheet")[0])
        session.commit()
        return account.id


def _add_activity(session: Session, account_id: str) -> None:
    """An event of each kind, and report links in every state."""
    for kind in EventKind:
        details = {"prefix": "rt_Ab3x"} if kind.endswith("_created") else {}
        add_security_event(session, account_id, kind, details, browser="Firefox on Windows")
    add_security_event(session, account_id, EventKind.KEY_CREATED, {"prefix": "ik_Ab3x"})
    audits = session.query(Audit).filter_by(account_id=account_id).limit(3)
    for number, audit in enumerate(audits):
        link = ReportLink(audit_id=audit.id, account_id=account_id, opens=1200 * number)
        link.issued_at = utc_now() - timedelta(days=20 * number)
        link.revoked_at = utc_now() if number == 1 else None
        link.last_opened_at = utc_now() if number else None
        session.add(link)


def _pay(session: Session, account_id: str) -> None:
    now = utc_now()
    for number, provider in enumerate(("stripe", "paddle", "comp")):
        payment = Payment(account_id=account_id, provider=provider, reference=f"p{number}")
        payment.kind, payment.amount, payment.currency = "credit", Decimal(49), "USD"
        payment.paid_at = now - timedelta(days=number)
        payment.refunded_at = now if number == 1 else None
        session.add(payment)
        session.flush()
        if number != 1:
            session.add(Credit(account_id=account_id, payment_id=payment.id))


def _add_done(sessions: Sessions, account_id: str, report: Report) -> str:
    """Finished audits of the last days; the newest has the sample's report."""
    totals = {
        "records": 5_000,
        "valid_pct": 99.1,
        "observed_days": 15,
        "projected_spend_usd": Decimal(400),
        "projected_savings_usd": Decimal(80),
        "savings_pct": 20.0,
        "findings_count": 3,
    }
    newest = ""
    for day in range(12, -1, -1):
        at, spend = utc_now() - timedelta(days=day), Decimal(100 + 17 * (day % 5))
        last = report if day == 0 else None
        newest = add_run(sessions, account_id, last, created_at=at, total_spend_usd=spend, **totals)
    routes = ("support-bot", _LONG_LABEL, "summaries")
    for rank, route in enumerate(routes, start=1):
        add_finding(sessions, newest, rank, 400 // rank, route=route)
    return newest


@contextmanager
def started_site_system(sink: Sink) -> Iterator[BrowsedSystem]:
    """Every process, a mail server, two payment providers, an administrator."""
    # A short path that PostgreSQL's user may pass through, unlike pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="tallystick-browsed-"))
    folder.chmod(0o711)
    try:
        settings: dict[str, Any] = {**_settings(), "SMTP_URL": sink.url}
        with BrowsedSystem(folder, workers=1, mail_workers=1, **settings) as system:
            yield system
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _settings() -> dict[str, str]:
    settings = {name.upper(): value for name, value in SETTINGS.items()}
    for provider in ("STRIPE", "PADDLE"):
        for ware in ("CREDIT", "PRO", "TEAM"):
            settings[f"{provider}_{ware}_LINK"] = f"https://buy.example/{ware.lower()}"
    prices = {"CREDIT_PRICE_SHOWN": "$49 per audit", "PRO_PRICE_SHOWN": "$99/month"}
    operator = {"OPERATOR_NAME": "Example Ltd", "OPERATOR_CONTACT": "privacy@example.org"}
    return (
        settings
        | prices
        | operator
        # One person at a time is served by one process.
        | {"GUNICORN_CMD_ARGS": "--workers=1"}
        # The queued example may take the wake-up of an audit, which then waits for the sweeper.
        | {"LEASE_SECONDS": "3", "MAGIC_LINK_LIMIT_PER_MINUTE": "1000"}
    )
