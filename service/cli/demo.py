"""tallystick demo: send the sample log through the real API and queue, and print its report."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from sqlalchemy import delete

from detectors.cli.terminal import print_report, report_console
from detectors.contract import Report, UsageRecord
from detectors.formats import read_chunks, records_of
from detectors.html.page import print_page
from service.cli.account import (
    create_account,
    mint_ingest_key,
    mint_read_token,
    session_of,
)
from service.cli.command import USUAL_DATA_DIR, CommandError, data_command
from service.cli.local_calls import LocalService, call_json
from service.cli.up import INTERRUPTED, port_option, running
from service.config.resources import RESOURCES
from service.core.tokens import sign_report
from service.models import Audit, IngestKey, ReadToken, ReportRow
from service.models.audits.audits import DONE, FAILED
from service.models.audits.report_links import issue_link
from service.models.identity.accounts import find_account
from service.operations.local.stack import Stack
from service.web.auth.scopes import SCOPES

EMAIL = "demo@tallystick.example"
LABEL = "demo"
AUDIT_SECONDS = 120.0
SHOWN_FINDINGS = 5
_POLL_SECONDS = 0.25  # well within the limit of reads a minute


@click.command()
@click.option("--once", is_flag=True, help="Stop after the report.")
@port_option
@data_command
def demo(once: bool, port: int | None, data_dir: Path | None) -> None:
    """Run the service and audit the sample log with it."""
    records, is_shown = read_sample(), False
    stack = Stack(data_dir or USUAL_DATA_DIR, port, os.environ)
    with running(stack):
        service = LocalService(stack.config, stack.port)
        show(service, stack.data_dir, records, is_serving=not once)
        is_shown = True
        if not once:
            click.echo(f"Serving at {stack.config.base_url} until Ctrl-C.")
            stack.wait()
            raise CommandError("the supervisor process exited and stopped the service")
    if not is_shown:
        raise click.exceptions.Exit(INTERRUPTED)


def show(
    service: LocalService, data_dir: Path, records: Sequence[UsageRecord], *, is_serving: bool
) -> None:
    """Send the records, wait for their audit, then print and save its report."""
    config = service.config
    with session_of(config) as session:
        # Replace the key and the token of the last demo.
        account = find_account(session, EMAIL) or create_account(session, EMAIL, "pro")
        session.flush()
        for table in (IngestKey, ReadToken):
            last = (table.account_id == account.id, table.label == LABEL)
            session.execute(delete(table).where(*last))
        key = mint_ingest_key(session, account, LABEL)
        token = mint_read_token(session, account, SCOPES, LABEL)
        session.commit()
    click.echo(f"Sending {len(records):,} calls of {SAMPLE.name} to {config.base_url}")
    body = msgspec.json.encode({"records": records})
    audit_id = call_json(service.port, key, "POST", "/api/v1/ingest", body)["audit_id"]
    _wait_for(service.port, token, audit_id)
    with session_of(config) as session:
        report = Report.from_json(session.get_one(ReportRow, audit_id).document)
    print_report(report, report_console(), SHOWN_FINDINGS)
    folder = data_dir / "reports"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{audit_id}.html"  # it outlives the service
    file.write_text(print_page(report), encoding="utf-8")
    click.echo(f"\nReport: {file}")
    if is_serving:
        with session_of(config) as session:
            # The account lists this link, and can revoke it.
            link = issue_link(session, session.get_one(Audit, audit_id).account_id, audit_id)
            session.commit()
        signed = sign_report(config.secret_key, audit_id, link.generation, link.issued_at)
        click.echo(f"Online: {config.base_url.rstrip('/')}/r/{signed}")


def _wait_for(port: int, token: str, audit_id: str) -> None:
    deadline = time.monotonic() + AUDIT_SECONDS
    while time.monotonic() < deadline:
        listed = call_json(port, token, "GET", "/api/v1/audits?limit=200")["audits"]
        status = next((each["status"] for each in listed if each["id"] == audit_id), None)
        if status == FAILED:
            raise CommandError("the audit failed; see log/worker-*.log in the data folder")
        if status == DONE:
            return
        time.sleep(_POLL_SECONDS)
    raise CommandError(f"the audit didn't finish within {AUDIT_SECONDS:.0f} seconds")


SAMPLE = RESOURCES / "examples" / "sample-usage.jsonl"


def read_sample() -> list[UsageRecord]:
    """Return the records of the sample log."""
    with SAMPLE.open("rb") as file:
        return [record for chunk in read_chunks(file) for record in records_of(chunk.columns)]
