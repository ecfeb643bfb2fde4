"""The benchmark of the read API: a page of 200 of 100,000 audits, and an audit with 400 findings.

    python benchmarks/read.py [--requests N] [--audits N]

The service runs on this machine as `tallystick up` runs it, with its workers stopped. The client
uses the same processors, and its time counts as the server's. The read limit is raised, because the
benchmark would exceed it. It reads the first page, a middle page and filtered pages, with a read
token and with an access token, and also a 304 response. The account has 400 findings of its own,
400 report links, and spend of 40 routes on 90 days.
"""

import argparse
import http.client
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from benchmarks.running import print_machine, running_service
from service.cli.account import create_account, mint_read_token
from service.core import tokens
from service.models import OAuthApplication, OAuthCode, OAuthToken, ReportRow
from service.models.base import utc_now
from service.operations.local.stack import Stack
from service.reports.sample import get_sample_report
from service.web.auth.scopes import SCOPES

SETTINGS: Final = {
    "READ_LIMIT_PER_MINUTE": "1000000",
}
FINDINGS: Final = 400
LIMIT: Final = 200
WARM_UP: Final = 20
# The most milliseconds of the median, and of 99 of a hundred requests.
BAR_MS, SLOWEST_MS = 10.0, 30.0
READ_AUDIT: Final = "audit000000"
API: Final = "/api/v1"
AUDITS: Final = f"{API}/audits"

_AUDITS: Final = text(
    """
    INSERT INTO audits (id, account_id, source, status, created_at, blob_key, starts, records,
      valid_pct, observed_days, total_spend_usd, projected_spend_usd, projected_savings_usd,
      savings_pct, equiv_spend, findings_count)
    SELECT 'audit' || lpad(n::text, 6, '0'), :account, 'ingest',
      CASE WHEN n % 100 = 7 THEN 'failed' ELSE 'done' END,
      now() - n * interval '1 minute', 'raw/audit' || n, 1, 5000, 99.5, 14, 100 + n % 900,
      300 + n % 900, 70 + n % 100, 23.5, false, :findings
    FROM generate_series(0, :audits - 1) AS n
    """
)
_FINDINGS: Final = text(
    """
    INSERT INTO findings (audit_id, rank, id, detector, kind, route, provider, model, calls,
      severity, confidence, monthly_cost_impact_usd, observed_cost_impact_usd, fix)
    SELECT :audit, rank, 'd1-' || lpad(rank::text, 3, '0'), 'd1_model_overkill', '',
      'route-' || rank % 40, 'openai', 'gpt-4o', 1200, 'high', 'ESTIMATED', 1000 - rank,
      400 - rank, repeat('Try gpt-4o-mini on this route. ', 8)
    FROM generate_series(1, :findings) AS rank
    """
)
_OWN_FINDINGS: Final = text(
    """
    INSERT INTO account_findings (id, account_id, identity, detector, kind, route, provider, model,
      state, audit_id, finding_id, severity, confidence, fix, calls, monthly_usd, observed_usd,
      first_seen, last_seen, fixed_at)
    SELECT 'finding' || n, :account, int4send(n), 'd2_missed_caching', '',
      'route-' || n % 40, 'openai', 'model-1', CASE WHEN n % 20 = 0 THEN 'fixed' ELSE 'open' END,
      :audit, 'd2-001', 'high', 'ESTIMATED', repeat('Cache the prefix of this route. ', 8), 1200,
      1000 - n, 400, now() - interval '90 days', now(),
      CASE WHEN n % 20 = 0 THEN now() - interval '20 days' END
    FROM generate_series(1, :findings) AS n
    """
)
_LINKS: Final = text(
    """
    INSERT INTO report_links (audit_id, account_id, issued_at, opens, last_opened_at)
    SELECT id, account_id, created_at, 2, now() FROM audits ORDER BY id LIMIT :findings
    """
)
_FILES: Final = text(
    """
    INSERT INTO call_files (id, account_id, blob_key, level, first_day, last_day, calls, bytes,
      imports, duplicates)
    SELECT 'file' || n, :account, 'calls/' || n, 1, current_date - n, current_date - n, 3720,
      160000, 480, 0
    FROM generate_series(0, 89) AS n
    """
)
_SPEND: Final = text(
    """
    INSERT INTO daily_spend (account_id, file_id, day, route, provider, model, environment, calls,
      unpriced_calls, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens,
      cost_usd, list_usd)
    SELECT :account, 'file' || n, current_date - n, 'route-' || r, 'openai', 'model-1', '',
      93, 0, 93000, 9300, 100, 10, (1 + r) * 0.013121, (1 + r) * 0.013121
    FROM generate_series(0, 89) AS n, generate_series(0, 39) AS r
    """
)


@dataclass(frozen=True)
class Measured:
    what: str
    milliseconds: float
    slowest_ms: float
    kilobytes: float


class Reader:
    """A connection that stays open, with one token."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, bytes]:
        self._connection.request("GET", path, headers={**self._headers, **(headers or {})})
        response = self._connection.getresponse()
        return response.status, response.headers.get("ETag", ""), response.read()


def fill_account(session: Session, audits: int) -> tuple[str, str]:
    """Create an account with audits; return a read token and an access token."""
    account = create_account(session, "benchmark@example.com", "team")
    session.flush()
    session.execute(_AUDITS, {"account": account.id, "audits": audits, "findings": FINDINGS})
    session.execute(_FINDINGS, {"audit": READ_AUDIT, "findings": FINDINGS})
    session.add(ReportRow(audit_id=READ_AUDIT, document=get_sample_report()))
    own = {"account": account.id, "audit": READ_AUDIT, "findings": FINDINGS}
    for statement in (_OWN_FINDINGS, _LINKS, _FILES, _SPEND):
        session.execute(statement, own)
    read_token = mint_read_token(session, account, SCOPES)
    access_token = allow(session, account.id)
    session.commit()
    return read_token, access_token


def allow(session: Session, account_id: str) -> str:
    application, _ = OAuthApplication.minted(
        account_id, name="Benchmark", redirect_uris=("https://app.example.com/back",)
    )
    session.add(application)
    session.flush()
    token, token_hash = tokens.mint_hashed(tokens.Kind.ACCESS_TOKEN)
    _, code_hash = tokens.mint_hashed(tokens.Kind.AUTHORIZATION_CODE)
    owners: dict[str, Any] = {"application_id": application.id, "account_id": account_id}
    code = OAuthCode(
        secret_hash=code_hash,
        scopes=list(SCOPES),
        redirect_uri=application.redirect_uris[0],
        code_challenge="x" * 43,
        used_at=utc_now(),
        **owners,
    )
    session.add(code)
    session.flush()
    issued = OAuthToken(code_id=code.id, secret_hash=token_hash, scopes=list(SCOPES), **owners)
    session.add(issued)
    return token


def measure(
    reader: Reader, what: str, path: str, requests: int, *, again: bool = False
) -> Measured:
    status, tag, body = reader.get(path)
    if status != http.client.OK:
        raise SystemExit(f"{what} was answered with {status}")
    headers = {"If-None-Match": tag} if again else {}
    durations = []
    for _ in range(requests + WARM_UP):
        began = time.perf_counter()
        reader.get(path, headers)
        durations.append((time.perf_counter() - began) * 1_000)
    counted = sorted(durations[WARM_UP:])
    slowest = counted[int(len(counted) * 0.99) - 1]
    return Measured(what, statistics.median(counted), slowest, 0 if again else len(body) / 1_000)


def middle_cursor(reader: Reader, pages: int) -> str:
    cursor = ""
    for _ in range(pages):
        _, _, body = reader.get(f"{AUDITS}?limit={LIMIT}{cursor}")
        cursor = f"&cursor={json.loads(body)['next_cursor']}"
    return cursor


def measure_all(stack: Stack, requests: int, audits: int) -> list[Measured]:
    for number in range(1, stack.config.worker_processes + 1):
        stack.supervisor.stop(f"worker-{number}")
    engine = create_engine(stack.config.migration_database_url)  # only the owner may VACUUM
    with Session(engine) as session:
        read_token, access_token = fill_account(session, audits)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()
    own, allowed = Reader(stack.port, read_token), Reader(stack.port, access_token)
    page, one = f"{AUDITS}?limit={LIMIT}", f"{AUDITS}/{READ_AUDIT}"
    grouped = f"{API}/spend?group_by=day,route&limit={LIMIT}"
    middle = page + middle_cursor(own, min(audits // LIMIT // 2, 100))
    return [
        measure(own, f"{LIMIT} of {audits:,} audits", page, requests),
        measure(allowed, "the same with an access token", page, requests),
        measure(own, "the same, unchanged (304)", page, requests, again=True),
        measure(own, "a page from the middle", middle, requests),
        measure(own, f"{LIMIT} that failed", f"{page}&status=failed", requests),
        measure(own, f"{FINDINGS} findings", f"{one}/findings", requests),
        measure(own, f"{LIMIT} findings of the account", f"{API}/findings?limit={LIMIT}", requests),
        measure(own, f"{LIMIT} report links", f"{API}/report-links?limit={LIMIT}", requests),
        measure(own, "spend by day", f"{API}/spend", requests),
        measure(own, f"{LIMIT} of spend by day and route", grouped, requests),
        measure(own, "one audit", one, requests),
        measure(own, "its report", f"{one}/report", requests),
    ]


def print_table(results: list[Measured]) -> None:
    print_machine()
    table = Table(title=f"Reading: p50 within {BAR_MS:.0f} ms, p99 within {SLOWEST_MS:.0f} ms")
    for heading in ("what", "p50", "p99", "size", "met"):
        table.add_column(heading)
    for one in results:
        is_met = one.milliseconds <= BAR_MS and one.slowest_ms <= SLOWEST_MS
        times = (f"{one.milliseconds:.1f} ms", f"{one.slowest_ms:.1f} ms")
        table.add_row(one.what, *times, f"{one.kilobytes:.0f} kB", "yes" if is_met else "no")
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=200, help="requests of each kind")
    parser.add_argument("--audits", type=int, default=100_000, help="audits in the account")
    arguments = parser.parse_args()
    with running_service("read", SETTINGS) as stack:
        print_table(measure_all(stack, arguments.requests, arguments.audits))


if __name__ == "__main__":
    main()
