"""The page benchmark: the server's time for each page, with 300,000 audits in the account.

    python benchmarks/pages.py [--requests N] [--audits N] [--large | --seeded]

With `--large`, the dashboard of an account with 10,000,000 calls is measured instead: its spend of
90 days, 400 routes and three models, 43,200 imports, and findings. With `--seeded`, the pages of
the account that `tallystick up --seed` adds are measured.

The service runs on this machine as `tallystick up` runs it, with its workers stopped. The client
uses the same processors, and its time counts as the server's. The pages are those of the
application's URL map, as a signed-in browser and an administrator get them. Responses that are not
pages are skipped; a page that needs more than an audit or a token is measured as its error page.
The report has 400 findings. Audits are a minute apart. A page meets its limits if the median and
the slowest of a hundred requests do.
"""

import argparse
import http.client
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from flask import Flask
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import Session

from benchmarks.intake.ingest import stop_workers
from benchmarks.running import print_machine, running_service
from detectors.contract import Report
from service.app import create_app
from service.cli.account import create_account
from service.cli.local_calls import LocalService
from service.cli.sample.account import SEEDED_EMAIL, seed
from service.core.tokens import sign_report
from service.models import Account, ReportRow, WebSession
from service.models.audits.audit_lists import PAGE_SIZE
from service.models.calls.account_findings import AccountFinding
from service.operations.local.stack import Stack
from service.reports.sample import get_sample_report
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.web_sessions import SECRET_FIELD, SessionCookies

ADMIN_TOKEN: Final = "a token of the benchmark, which nobody else reaches".replace(" ", "-")
SETTINGS: Final = {
    "ADMIN_TOKEN": ADMIN_TOKEN,
    "READ_LIMIT_PER_MINUTE": "1000000",
}
FINDINGS: Final = 400
WARM_UP: Final = 5
# The most milliseconds of the median, and of the slowest of a hundred requests.
BAR_MS, SLOWEST_MS = 10.0, 30.0
LARGE_BAR_MS, LARGE_SLOWEST_MS = 50.0, 150.0
LARGE_AUDITS: Final = 43_200
LARGE_PAGES: Final = (
    "/dashboard",
    "/dashboard?days=90",
    "/dashboard?group=model",
    "/dashboard?group=environment",
    "/dashboard?route=route-007&group=model",
    "/dashboard?provider=openai",
)
SEEDED_BAR_MS, SEEDED_SLOWEST_MS = 30.0, 90.0
SEEDED_PAGES: Final = (
    *("/dashboard", "/spend", "/compare", "/imports", "/plan-usage", "/findings", "/bill"),
    *("/settings/connections", "/developer", "/settings"),
)
REPORTED: Final = "audit000000"  # the audit whose report is measured: the newest
# Not the time of a page: the server refused, or failed.
NOT_MEASURED: Final = (429, 500, 502, 503, 504)
# Not pages for people, or changed by a request.
LEFT_OUT: Final = ("/api/", "/static/", "/auth/", "/healthz", "/readyz")

_AUDITS: Final = text(
    """
    INSERT INTO audits (id, account_id, source, status, created_at, blob_key, starts, records,
      valid_pct, observed_days, total_spend_usd, projected_spend_usd, projected_savings_usd,
      savings_pct, equiv_spend, findings_count, finished_at, error)
    SELECT 'audit' || lpad(n::text, 6, '0'), :account,
      CASE WHEN n % 3 = 1 THEN 'upload' ELSE 'ingest' END,
      CASE WHEN n % 100 = 7 THEN 'failed' WHEN n = 3 THEN 'processing' ELSE 'done' END,
      now() - n * interval '1 minute', 'raw/audit' || n, 1, 5000, 99.5, 14, 100 + n % 900,
      300 + n % 900, 70 + n % 100, 23.5, false, :findings, now(),
      CASE WHEN n % 100 = 7 THEN 'under half of the rows could be read' END
    FROM generate_series(0, :audits - 1) AS n
    """
)
_FINDINGS: Final = text(
    """
    INSERT INTO findings (audit_id, rank, id, detector, kind, route, provider, model, calls,
      severity, confidence, monthly_cost_impact_usd, observed_cost_impact_usd, fix)
    SELECT audits.id, rank, 'd1-' || lpad(rank::text, 3, '0'), 'd1_model_overkill', '',
      'route-' || (rank * 7 + length(audits.id)) % 40, 'openai', 'gpt-4o', 1200, 'high',
      'ESTIMATED', 1000 - rank, 400 - rank, 'Try gpt-4o-mini on this route.'
    FROM audits, generate_series(1, :findings) AS rank
    WHERE status = 'done' AND account_id = :account
    """
)


# 10,000,000 calls of 90 days, as they are after compaction: a file for each day.
_FILES: Final = text(
    """
    INSERT INTO call_files (id, account_id, blob_key, level, first_day, last_day, calls, bytes,
      imports, duplicates)
    SELECT 'file' || lpad(n::text, 5, '0'), :account, 'calls/' || n, 1, current_date - n,
      current_date - n, 111600, 5000000, 480, 0
    FROM generate_series(0, 89) AS n
    """
)
_SPEND: Final = text(
    """
    INSERT INTO daily_spend (account_id, file_id, day, route, provider, model, environment, calls,
      unpriced_calls, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens,
      cost_usd, list_usd)
    SELECT :account, 'file' || lpad(n::text, 5, '0'), current_date - n,
      'route-' || lpad(r::text, 3, '0'), CASE WHEN m = 0 THEN 'anthropic' ELSE 'openai' END,
      'model-' || m, CASE WHEN r % 4 = 0 THEN 'staging' ELSE 'production' END,
      93, 0, 93000, 9300, 100, 10, (1 + r % 37 + m) * 0.013121, (1 + r % 37 + m) * 0.013121
    FROM generate_series(0, 89) AS n, generate_series(0, 399) AS r, generate_series(0, 2) AS m
    """
)
_OWN_AUDITS: Final = text(
    """
    INSERT INTO audits (id, account_id, source, status, created_at, blob_key, starts, records,
      valid_pct, observed_days, total_spend_usd, projected_spend_usd, projected_savings_usd,
      savings_pct, equiv_spend, findings_count, finished_at, window_days, projection,
      verified_savings_usd, estimated_savings_usd, conditional_savings_high_usd)
    SELECT 'own' || lpad(n::text, 5, '0'), :account, 'account', 'done',
      now() - n * interval '1 day', '', 1, 3333333, 100, 30, 9000, 9000, 1200, 13.3, false, 400,
      now(), 30, 'good', 200, 1000, 300
    FROM generate_series(0, 89) AS n
    """
)
_OWN_FINDINGS: Final = text(
    """
    INSERT INTO account_findings (id, account_id, identity, detector, kind, route, provider, model,
      state, audit_id, finding_id, severity, confidence, fix, calls, monthly_usd, observed_usd,
      first_seen, last_seen, fixed_at)
    SELECT 'finding' || n, :account, int4send(n), 'd2_missed_caching', '',
      'route-' || lpad((n % 400)::text, 3, '0'), 'openai', 'model-1',
      CASE WHEN n % 20 = 0 THEN 'fixed' ELSE 'open' END, 'own00000', 'd2-001', 'high', 'ESTIMATED',
      'Cache the prefix.', 1200, 1000 - n, 400, now() - interval '90 days', now(),
      CASE WHEN n % 20 = 0 THEN now() - interval '40 days' END
    FROM generate_series(1, 800) AS n
    """
)
_OWN_SAVINGS: Final = text(
    """
    INSERT INTO account_finding_days (account_finding_id, day, calls, saving_usd)
    SELECT id, current_date - n, 40, 1.25
    FROM account_findings, generate_series(40, 89) AS n WHERE account_id = :account
    """
)


@dataclass(frozen=True)
class Measured:
    path: str
    milliseconds: float
    slowest: float  # of a hundred requests
    kilobytes: float


class Browser:
    """A signed-in connection that stays open, with the administrator's token."""

    def __init__(self, port: int, cookie: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Cookie": f"{SESSION_COOKIE}={cookie}", "Accept": "text/html"}

    def get(self, path: str) -> tuple[int, str, bytes]:
        token = {"X-Admin-Token": ADMIN_TOKEN} if path.startswith("/admin") else {}
        self._connection.request("GET", path, headers={**self._headers, **token})
        response = self._connection.getresponse()
        return response.status, response.headers.get_content_type(), response.read()


def fill_account(session: Session, audits: int) -> str:
    """Create an account with audits and a report; return the secret of its session."""
    account = create_account(session, "benchmark@example.com", "team")
    session.flush()
    session.execute(_AUDITS, {"account": account.id, "audits": audits, "findings": FINDINGS})
    session.execute(_FINDINGS, {"account": account.id, "findings": 10})
    session.add(ReportRow(audit_id=REPORTED, document=make_report()))
    return new_session(session, account.id)


def new_session(session: Session, account_id: str) -> str:
    """Sign the account in; return the secret of its session."""
    row, secret = WebSession.minted(account_id, days=1)
    session.add(row)
    session.commit()
    return secret


def fill_calls(session: Session, account_id: str) -> None:
    """Add the spend of 10,000,000 calls, audits of the account, and its findings."""
    for statement in (_FILES, _SPEND, _OWN_AUDITS, _OWN_FINDINGS, _OWN_SAVINGS):
        session.execute(statement, {"account": account_id})
    session.commit()


def cookie_of(stack: Stack, secret: str) -> str:
    """Return the cookie of a browser with this session."""
    app = create_app(stack.config)
    serializer = SessionCookies().get_signing_serializer(app)
    assert serializer is not None, "the application has a secret key"
    return str(serializer.dumps({SECRET_FIELD: secret}))


def make_report() -> bytes:
    """Return the sample report, with as many findings as a large customer's."""
    report = Report.from_json(get_sample_report())
    kept = len(report.findings)
    copies = (
        msgspec.structs.replace(report.findings[place % kept], id=f"d1-{place:03d}")
        for place in range(FINDINGS)
    )
    return msgspec.structs.replace(report, findings=tuple(copies)).to_json()


def list_pages(app: Flask, secret_key: str) -> Iterator[str]:
    """Return the addresses of the URL map, and those of further dashboard pages."""
    known = {"audit_id": REPORTED, "token": sign_report(secret_key, REPORTED)}
    with app.test_request_context(base_url="http://localhost"):
        for rule in sorted(app.url_map.iter_rules(), key=lambda one: one.rule):
            if "GET" in (rule.methods or ()) and not rule.rule.startswith(LEFT_OUT):
                values: dict[str, Any] = {name: known.get(name, "none") for name in rule.arguments}
                yield str(app.url_for(rule.endpoint, **values))
    for query in ("status=failed", "status=queued", "source=upload", "before=audit005000"):
        yield f"/dashboard?{query}"
    yield "/dashboard?status=processing&source=upload"
    yield f"/dashboard?after=audit{PAGE_SIZE * 4:06d}"
    yield f"/audits/{REPORTED}?finding=d1-001"


def measure(browser: Browser, path: str, requests: int) -> Measured | None:
    """Return the median; None for a response that is not a page."""
    expected, kind, _ = browser.get(path)
    if kind != "text/html":
        return None
    durations, body = [], b""
    for _ in range(requests + WARM_UP):
        began = time.perf_counter()
        status, _, body = browser.get(path)
        durations.append((time.perf_counter() - began) * 1_000)
        if status != expected or status in NOT_MEASURED:
            raise SystemExit(f"{path.partition(chr(63))[0][:40]} was answered with {status}")
    measured = durations[WARM_UP:]
    slowest = statistics.quantiles(measured, n=100, method="inclusive")[-1]
    return Measured(path, statistics.median(measured), slowest, len(body) / 1_000)


def prepare(stack: Stack, audits: int, *, is_large: bool = False) -> tuple[Flask, str]:
    """Start an idle service with a full account; return the application and the owner's cookie."""
    stop_workers(stack)
    engine = create_engine(stack.config.migration_database_url)  # only the owner may VACUUM
    with Session(engine) as session:
        secret = fill_account(session, audits)
        if is_large:
            fill_calls(session, session.scalars(select(WebSession.account_id)).one())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()
    return create_app(stack.config), cookie_of(stack, secret)


def measure_all(stack: Stack, requests: int, audits: int) -> list[Measured]:
    app, cookie = prepare(stack, audits)
    browser = Browser(stack.port, cookie)
    pages = list_pages(app, stack.config.secret_key)
    return [one for path in pages if (one := measure(browser, path, requests))]


def measure_dashboard(stack: Stack, requests: int) -> list[Measured]:
    """Measure the dashboard of an account with 10,000,000 calls, 400 routes and 43,200 imports."""
    _, cookie = prepare(stack, LARGE_AUDITS, is_large=True)
    browser = Browser(stack.port, cookie)
    return [one for path in LARGE_PAGES if (one := measure(browser, path, requests))]


def measure_seeded(stack: Stack, requests: int) -> list[Measured]:
    """Measure the pages of the example account, and that of its most expensive finding."""
    seed(LocalService(stack.config, stack.port))
    stop_workers(stack)
    engine = create_engine(stack.config.database_url)
    with Session(engine) as session:
        account = session.scalars(select(Account).where(Account.email == SEEDED_EMAIL)).one()
        browser = Browser(stack.port, cookie_of(stack, new_session(session, account.id)))
        own = select(AccountFinding.id).where(AccountFinding.account_id == account.id)
        finding = session.scalars(own.order_by(AccountFinding.monthly_usd.desc())).first()
    engine.dispose()
    pages = (*SEEDED_PAGES, f"/findings/{finding}")
    return [one for path in pages if (one := measure(browser, path, requests))]


def print_table(results: list[Measured], title: str, bar: float, slowest: float) -> None:
    print_machine()
    table = Table(title=title)
    for heading in ("page", "p50", "p99", "size", f"<= {bar:g} and {slowest:g} ms"):
        table.add_column(heading)
    for one in results:
        shown = "/r/<token>" if one.path.startswith("/r/") else one.path
        met = "yes" if one.milliseconds <= bar and one.slowest <= slowest else "no"
        times = (f"{one.milliseconds:.1f} ms", f"{one.slowest:.1f} ms")
        table.add_row(shown, *times, f"{one.kilobytes:.0f} kB", met)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100, help="requests of each page")
    parser.add_argument("--audits", type=int, default=300_000, help="audits in the account")
    parser.add_argument("--large", action="store_true", help="measure the dashboard at 10M calls")
    parser.add_argument("--seeded", action="store_true", help="measure the example account")
    arguments = parser.parse_args()
    with running_service("pages", SETTINGS) as stack:
        if arguments.seeded:
            results = measure_seeded(stack, arguments.requests)
            title = "Pages of the example account"
            print_table(results, title, SEEDED_BAR_MS, SEEDED_SLOWEST_MS)
        elif arguments.large:
            results = measure_dashboard(stack, arguments.requests)
            title = "The dashboard, with 10,000,000 calls"
            print_table(results, title, LARGE_BAR_MS, LARGE_SLOWEST_MS)
        else:
            results = measure_all(stack, arguments.requests, arguments.audits)
            title = f"Pages, with {arguments.audits:,} audits in the account"
            print_table(results, title, BAR_MS, SLOWEST_MS)


if __name__ == "__main__":
    main()
