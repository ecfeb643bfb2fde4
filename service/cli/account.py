"""tallystick account: accounts, plans, keys and tokens."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

import click
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from detectors.cli.comparison import ChangedFinding, Printed, print_comparison
from detectors.cli.terminal import report_console
from detectors.wording.figures import counted, usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from service.cli.command import CommandError, data_command, reach
from service.cli.output import print_fields
from service.config import Config
from service.core.db import make_engine, make_session_factory
from service.core.tokens import make_dsn
from service.errors import InvalidRequestError
from service.jobs.queues import AuditQueues
from service.mail.addresses import find_address
from service.mail.messages import magic_link_url
from service.models import Account, Subscription
from service.models.access.credentials import (
    MAX_READ_TOKENS,
    TOKEN_DAYS,
    KeyLimitError,
    TokenLimitError,
    add_ingest_key,
    add_read_token,
)
from service.models.audits.audits import ACCOUNT
from service.models.base import utc_now
from service.models.calls.account_audits import DEFAULT_WINDOW, WINDOWS, queue_account_audit
from service.models.calls.future_calls import (
    delete_future_calls,
    list_future_calls,
    sum_future_calls,
)
from service.models.calls.spend import Periods
from service.models.identity.accounts import COMP, KEY_LIMITS, find_account
from service.models.identity.security_events import EventKind, add_security_event
from service.models.identity.sign_in import add_magic_link
from service.models.imports.span_batches import request_import
from service.operations.comparing import compare_periods
from service.web.auth.scopes import SCOPES
from service.web.schemas.comparison import ComparisonSchema, ImpossibleError, choose, describe
from service.web.schemas.labels import read_label
from service.web.schemas.spend import FutureCallsSchema, find_day

_MOST_ROWS: Final = 200
_SHOWN: Final = 20
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def json_command(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--json` and `--data` to a command, and show its expected errors."""
    return json_option(data_command(command))


@click.group()
def account() -> None:
    """Create accounts, keys and tokens."""


@account.command()
@click.argument("email")
@click.option("--plan", type=click.Choice(tuple(KEY_LIMITS)), default="free", show_default=True)
@json_command
def create(email: str, plan: str, as_json: bool, data_dir: Path | None) -> None:
    """Create an account, with the subscription of its plan."""
    with session_of(reach(data_dir)) as session:
        created = create_account(session, email, plan)
        try:
            session.commit()
        except IntegrityError as error:
            raise CommandError(f"an account for {email} already exists") from error
        print_fields({"account_id": created.id, "email": created.email, "plan": plan}, as_json)


@account.command()
@click.argument("email")
@click.argument("kind", type=click.Choice(("ingest-key", "read-token")))
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help="Scope of a read token.  [default: both]",
)
@click.option("--label", default="", help="A name to recognize it by; up to 60 characters.")
@click.option(
    "--expires-in-days",
    "days",
    type=click.IntRange(1, 3_650),
    help=f"Lifetime of a read token.  [default: {TOKEN_DAYS}]",
)
@click.option("--never-expires", "is_lasting", is_flag=True, help="A read token without an end.")
@json_command
def mint(email: str, kind: str, as_json: bool, data_dir: Path | None, **options: Any) -> None:
    """Create an ingest key or read token; print it once."""
    try:
        label = read_label({"label": options["label"]})
    except InvalidRequestError as error:
        raise CommandError(error.message) from error
    scopes = options["scopes"]
    days, is_lasting = options["days"], options["is_lasting"]
    if kind == "ingest-key" and (scopes or days or is_lasting):
        raise CommandError("--scope and --expires-in-days apply to read tokens only")
    if days and is_lasting:
        raise CommandError("choose either --expires-in-days or --never-expires")
    expires_at = None if is_lasting else utc_now() + timedelta(days=days or TOKEN_DAYS)
    config = reach(data_dir)
    with session_of(config) as session:
        owner = get_account(session, email)
        if kind == "ingest-key":
            key = mint_ingest_key(session, owner, label)
            fields = {"ingest_key": key, "dsn": make_dsn(config.base_url, key)}
        else:
            token = mint_read_token(session, owner, scopes or SCOPES, label, expires_at=expires_at)
            fields = {"read_token": token}
        session.commit()
    print_fields(fields, as_json)


@account.command("audit")
@click.argument("email")
@click.option(
    "--days",
    type=click.Choice([str(days) for days in WINDOWS]),
    default=str(DEFAULT_WINDOW),
    show_default=True,
    help="The days that end with the account's newest call.",
)
@json_command
def audit_calls(email: str, days: str, as_json: bool, data_dir: Path | None) -> None:
    """Audit an account's calls over all of its imports."""
    config = reach(data_dir)
    with session_of(config) as session:
        owner = get_account(session, email)
        audit_id = queue_account_audit(session.connection(), owner.id, int(days))
        if audit_id is None:
            raise CommandError(f"the account for {email} has no calls yet")
        session.commit()
    AuditQueues.from_config(config).enqueue_audit(audit_id, ACCOUNT)
    print_fields({"audit_id": audit_id, "report": f"{config.base_url}/audits/{audit_id}"}, as_json)


@account.command("future-calls")
@click.argument("email")
@json_command
def list_future(email: str, as_json: bool, data_dir: Path | None) -> None:
    """List an account's calls dated after today.

    They come from programs with a wrong clock, and count toward spend from their date.
    """
    with session_of(reach(data_dir)) as session:
        owner, today = get_account(session, email), utc_now().date()
        found = sum_future_calls(session, owner.id, today)
        lines = list_future_calls(session, owner.id, today)
    if as_json:
        fields = {**found._asdict(), "lines": [line._asdict() for line in lines]}
        click.echo(FutureCallsSchema(exclude=["is_deleting"]).dumps(fields))
        return
    for line in lines:
        labels = f"{inert(line.route or 'no route')}, {inert(line.model)}"
        click.echo(f"{line.day}: {counted(line.calls, 'call')}, {usd(line.cost_usd)}, {labels}")
    click.echo(f"{counted(found.calls, 'call')} dated after today, {usd(found.cost_usd)}")


@account.command("delete-future-calls")
@click.argument("email")
@click.option("--from", "first", metavar="DAY", help="The first day (UTC); tomorrow by default.")
@click.option("--to", "last", metavar="DAY", help="The last day; by default, all later days.")
@json_command
def delete_future(email: str, as_json: bool, data_dir: Path | None, **days: str | None) -> None:
    """Delete an account's calls dated after today.

    This can't be undone. A worker removes them within a minute.
    """
    chosen, config = _read_days(days), reach(data_dir)
    with session_of(config) as session:
        owner = get_account(session, email)
        ends = (chosen.get("first", date.min), chosen.get("last", date.max))
        calls = delete_future_calls(session, owner.id, utc_now().date(), ends)
        if calls:
            details = {"calls": calls}
            add_security_event(session, owner.id, EventKind.FUTURE_CALLS_DELETED, details)
            session.commit()
            AuditQueues.from_config(config).enqueue_compaction(owner.id)
    print_fields({"deleted_calls": calls}, as_json)


@account.command()
@click.argument("email")
@json_command
def flush(email: str, as_json: bool, data_dir: Path | None) -> None:
    """Import an account's OpenTelemetry spans now."""
    with session_of(reach(data_dir)) as session:
        calls = request_import(session, get_account(session, email).id)
        session.commit()
    print_fields({"calls": calls}, as_json)


@account.command()
@click.argument("email")
@click.option("--from", "first", metavar="DAY", help="The later period's first day (UTC).")
@click.option("--to", "last", metavar="DAY", help="Its last day; today by default.")
@click.option(
    "--before-from", "before_first", metavar="DAY", help="The earlier period's first day."
)
@click.option("--before-to", "before_last", metavar="DAY", help="The earlier period's last day.")
@json_command
def compare(email: str, as_json: bool, data_dir: Path | None, **days: str | None) -> None:
    """Compare two periods of an account.

    Spend is compared by route and model. By default, the periods are the last 30 days and the 30
    days before.
    """
    with session_of(reach(data_dir)) as session:
        owner = get_account(session, email)
        given = _read_days(days)
        try:
            periods = choose(given, utc_now().date())
        except ImpossibleError as error:
            raise CommandError(str(error)) from error
        compared = compare_periods(session, owner.id, cast(Periods, periods), limit=_MOST_ROWS)
    if as_json:
        click.echo(ComparisonSchema().dumps(describe(compared)))
        return
    print_comparison(
        Printed(
            spans=(compared.before, compared.after),
            routes=compared.routes,
            models=compared.models,
            findings=[
                ChangedFinding(
                    status=each.status,
                    name=detector_name(each.detector),
                    route=each.route,
                    model=each.model,
                    before_usd=each.before_usd,
                    after_usd=each.after_usd,
                )
                for each in compared.findings
            ],
            notes=compared.notes,
            gap=compared.gap,
        ),
        report_console(),
        _SHOWN,
    )


def _read_days(days: Mapping[str, str | None]) -> dict[str, date]:
    given = {name: find_day(text) for name, text in days.items() if text is not None}
    if None in given.values():
        raise CommandError("enter days from 2000 to 2100, such as 2026-03-01")
    return cast("dict[str, date]", given)


@contextmanager
def session_of(config: Config) -> Iterator[Session]:
    engine = make_engine(config)
    try:
        with make_session_factory(engine)() as session:
            yield session
    finally:
        engine.dispose()


def create_account(session: Session, email: str, plan: str) -> Account:
    address = find_address(email)
    if address is None:
        raise CommandError("invalid email address")
    created = Account(email=address)
    if KEY_LIMITS[plan]:
        created.subscriptions = [Subscription(plan=plan, status="active", provider=COMP)]
    session.add(created)
    return created


def make_owner_link(config: Config) -> str:
    """Return a sign-in link for the owner; create the owner's account if needed."""
    with session_of(config) as session:
        if find_account(session, config.owner_email) is None:
            create_account(session, config.owner_email, "team")  # with every feature
        url = make_sign_in_link(session, config, config.owner_email)
        session.commit()
    return url


def make_sign_in_link(session: Session, config: Config, email: str) -> str:
    """Add a single-use sign-in link, and return its URL, so that nobody needs mail.

    The caller commits.
    """
    link = add_magic_link(
        session, email, config.secret_key, minutes=config.magic_link_minutes, next_path="/dashboard"
    )
    session.flush()
    return magic_link_url(config, link.id)


def get_account(session: Session, email: str) -> Account:
    found = find_account(session, find_address(email) or email)
    if found is None:
        raise CommandError(f"there is no account for {email}")
    return found


def mint_ingest_key(session: Session, owner: Account, label: str = "") -> str:
    """Create an ingest key, if the plan allows another."""
    try:
        row, key = add_ingest_key(session, owner, label)
    except KeyLimitError as error:
        raise CommandError(str(error)) from error
    add_security_event(session, owner.id, EventKind.KEY_CREATED, {"prefix": row.prefix})
    return key


def mint_read_token(
    session: Session,
    owner: Account,
    scopes: tuple[str, ...],
    label: str = "",
    *,
    expires_at: datetime | None = None,
) -> str:
    """Create a read token, if the account may have another."""
    try:
        row, token = add_read_token(session, owner, scopes, label, expires_at=expires_at)
    except TokenLimitError as error:
        raise CommandError(f"an account can have up to {MAX_READ_TOKENS} read tokens") from error
    add_security_event(session, owner.id, EventKind.TOKEN_CREATED, {"prefix": row.prefix})
    return token
