"""tallystick admin: admin actions from a terminal with access to the database."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import msgspec
from marshmallow import Schema, ValidationError
from sqlalchemy.orm import Session

from service.cli.account import get_account, json_command, session_of
from service.cli.command import CommandError, data_command, reach
from service.cli.output import print_fields, print_table
from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.queues import AuditQueues
from service.mail.addresses import find_address
from service.models.base import utc_now
from service.models.billing.credits import count_free_credits
from service.models.identity.accounts import find_account
from service.models.operations.admin_actions import COMMAND
from service.models.operations.admin_listings import (
    Page,
    page_of_accounts,
    page_of_audits,
    page_of_early_access,
    with_age,
)
from service.operations.admin.actions import (
    export_early_access,
    get_any_pdf,
    grant_credits,
    mark_purged,
    queue_failed,
    queue_rerun,
    record_payment,
    reset_passkeys,
    sign_out,
)
from service.operations.admin.overview import write_early_access
from service.web.schemas.admin import (
    AccountLineSchema,
    AuditLineSchema,
    EarlyAccessLineSchema,
    MarkPaidSchema,
)

page_option = click.option(
    "--page", type=click.IntRange(1), default=1, show_default=True, help="Newest first."
)


@click.group()
def admin() -> None:
    """Manage audits and payments of any account. Every action is logged."""


@admin.command()
@click.argument("audit_id")
@json_command
def purge(audit_id: str, as_json: bool, data_dir: Path | None) -> None:
    """Delete an audit's raw upload.

    Its report and what was derived from the upload stay.
    """
    config = reach(data_dir)
    with session_of(config) as session:
        audit, is_new = mark_purged(session, audit_id, COMMAND)
        session.commit()
    BlobStore.from_url(config.storage_url).delete(audit.blob_key)
    print_fields({"audit_id": audit.id, "is_repeat": not is_new}, as_json)


class _Since(click.ParamType[datetime]):
    """A time in ISO 8601, in UTC unless it says otherwise, or how long ago it was: 90m, 2h, 3d."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if found := re.fullmatch(r"(\d{1,5})([mhd])", value):
            unit = {"m": "minutes", "h": "hours", "d": "days"}[found[2]]
            return utc_now() - timedelta(**{unit: int(found[1])})
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail("use a time such as 2026-11-28T06:00, or 90m, 2h or 3d", param, ctx)
        return time if time.tzinfo else time.replace(tzinfo=UTC)


@admin.command()
@click.argument("audit_id", required=False)
@click.option("--failed-since", type=_Since(), help="Rerun all audits that have failed since then.")
@json_command
def rerun(
    audit_id: str | None, failed_since: datetime | None, as_json: bool, data_dir: Path | None
) -> None:
    """Rerun an audit from its raw upload or its stored records.

    The records are read if the upload was purged. With --failed-since, rerun every batch and file
    whose audit has failed since a time, such as 2h (ago) or 2026-11-28T06:00 (UTC), and audit
    every account again whose latest audit has.
    """
    if (audit_id is None) == (failed_since is None):
        raise click.UsageError("give either AUDIT_ID or --failed-since")
    config = reach(data_dir)
    blobs, queues = BlobStore.from_url(config.storage_url), AuditQueues.from_config(config)
    with session_of(config) as session:
        if failed_since is not None:
            found = queue_failed(session, blobs, queues, failed_since, COMMAND)
            print_fields(found._asdict(), as_json)
            return
        audit = queue_rerun(session, blobs, audit_id or "", COMMAND)
        session.commit()
    queues.enqueue_audit(audit.id, audit.source, audit.attempts + 1)
    print_fields({"audit_id": audit.id, "status": audit.status}, as_json)


@admin.command()
@click.argument("audit_id")
@click.option(
    "--output",
    type=click.File("wb"),
    default="-",
    help="The file to write.  [default: standard output]",
)
@data_command
def report(audit_id: str, output: BinaryIO, data_dir: Path | None) -> None:
    """Write an audit's report as PDF."""
    config = reach(data_dir)
    with session_of(config) as session:
        blobs = BlobStore.from_url(config.storage_url)
        content = get_any_pdf(session, blobs, audit_id, COMMAND, rules_url=config.rules_url)
        session.commit()
    output.write(content)


@admin.command()
@click.argument("email")
@click.option("--provider", required=True, help="stripe, paddle, invoice, …, or comp for a gift.")
@click.option("--reference", required=True, help="The payment provider's ID of the payment.")
@click.option("--amount", required=True, help="In whole currency units; 0 for a gift.")
@click.option("--currency", default="USD", show_default=True)
@click.option("--kind", default="credit", show_default=True, help="credit or subscription.")
@click.option("--plan", help="Plan of a subscription: pro or team.")
@json_command
def mark_paid(as_json: bool, data_dir: Path | None, **fields: str | None) -> None:
    """Grant a credit or plan that is free or was paid elsewhere."""
    try:
        payment: Any = MarkPaidSchema().load(
            {name: value for name, value in fields.items() if value is not None}
        )
    except ValidationError as error:
        wrong = cast("dict[str, list[str]]", error.messages)
        message = "; ".join(f"{name} {' '.join(texts)}" for name, texts in wrong.items())
        raise CommandError(message) from error
    with session_of(reach(data_dir)) as session:
        row, is_new = record_payment(session, payment, COMMAND)
        session.commit()
    done = {"payment_id": row.id, "account_id": row.account_id, "is_repeat": not is_new}
    print_fields(done, as_json)


@admin.command()
@click.argument("email")
@click.option(
    "--credits",
    "count",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="Number of credits.",
)
@json_command
def grant(email: str, count: int, as_json: bool, data_dir: Path | None) -> None:
    """Give an email address free audit credits."""
    address = find_address(email)
    if address is None:
        raise CommandError("invalid email address")
    with session_of(reach(data_dir)) as session:
        grant_credits(session, address, count, COMMAND)
        session.commit()
        account = find_account(session, address)
        left = count_free_credits(session, account.id) if account else None
    print_fields({"email": address, "granted": count, "credits_left": left}, as_json)


@admin.command(name="sign-out")
@click.argument("email")
@json_command
def end_sessions(email: str, as_json: bool, data_dir: Path | None) -> None:
    """Sign an account out in every browser."""
    with session_of(reach(data_dir)) as session:
        account = get_account(session, email)
        ended = sign_out(session, account, COMMAND)
        session.commit()
    print_fields({"email": account.email, "sessions_ended": ended}, as_json)


@admin.command(name="reset-passkeys")
@click.argument("email")
@json_command
def remove_passkeys(email: str, as_json: bool, data_dir: Path | None) -> None:
    """Remove a locked-out user's passkeys and recovery codes.

    First make sure that it's really them: from then on, a sign-in link alone signs in.
    """
    with session_of(reach(data_dir)) as session:
        account = get_account(session, email)
        removed = reset_passkeys(session, account, COMMAND)
        session.commit()
    print_fields({"email": account.email, "passkeys_removed": removed}, as_json)


@admin.command()
@page_option
@json_command
def audits(page: int, as_json: bool, data_dir: Path | None) -> None:
    """List audits."""

    def load(session: Session, number: int) -> Page:
        return with_age(page_of_audits(session, number), utc_now())

    _list(reach(data_dir), load, AuditLineSchema(many=True), page, as_json)


@admin.command()
@page_option
@json_command
def accounts(page: int, as_json: bool, data_dir: Path | None) -> None:
    """List accounts with their plans and free credits."""
    _list(reach(data_dir), page_of_accounts, AccountLineSchema(many=True), page, as_json)


@admin.command()
@click.option("--csv", "as_csv", is_flag=True, help="Export all as CSV.")
@page_option
@json_command
def early_access(as_csv: bool, page: int, as_json: bool, data_dir: Path | None) -> None:
    """List or export the early access signups."""
    config = reach(data_dir)
    if not as_csv:
        _list(config, page_of_early_access, EarlyAccessLineSchema(many=True), page, as_json)
        return
    with session_of(config) as session:
        rows = export_early_access(session, COMMAND)
        session.commit()
    click.echo(write_early_access(rows), nl=False)


def _list(
    config: Config,
    load: Callable[[Session, int], Page],
    schema: Schema,
    number: int,
    as_json: bool,
) -> None:
    with session_of(config) as session:
        page = load(session, number)
        rows = schema.dump(page.rows)
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return
    print_table(tuple(schema.fields), rows)
    if page.has_next:
        click.echo(f"For the next page, add --page {number + 1}.", err=True)
