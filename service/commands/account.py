"""tallystick account: accounts, their plans and their secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.commands.options import CommandError, data_option, one_line_errors, reach
from service.commands.output import print_fields
from service.config import Config
from service.db import make_engine, make_sessions
from service.mail.addresses import find_address
from service.models import Account, ReadToken, Subscription
from service.models.accounts import COMP, KEY_LIMITS, find_account
from service.models.credentials import KeyLimitError, add_ingest_key
from service.tokens import make_dsn

SCOPES = ("read:audits", "read:findings")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def account() -> None:
    """Create accounts and mint their keys and tokens."""


@account.command()
@click.argument("email")
@click.option("--plan", type=click.Choice(tuple(KEY_LIMITS)), default="free", show_default=True)
@json_option
@data_option
@one_line_errors
def create(email: str, plan: str, as_json: bool, data_dir: Path | None) -> None:
    """Create an account, with a subscription where the plan is a paid one."""
    with session_of(reach(data_dir)) as session:
        created = create_account(session, email, plan)
        try:
            session.commit()
        except IntegrityError as error:
            raise CommandError(f"there is already an account of {email}") from error
        print_fields({"account_id": created.id, "email": created.email, "plan": plan}, as_json)


@account.command()
@click.argument("email")
@click.argument("kind", type=click.Choice(("ingest-key", "read-token")))
@click.option(
    "--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="Of a read token; both."
)
@json_option
@data_option
@one_line_errors
def mint(
    email: str, kind: str, scopes: tuple[str, ...], as_json: bool, data_dir: Path | None
) -> None:
    """Mint a secret of an account. It is shown now and never again."""
    if scopes and kind == "ingest-key":
        raise CommandError("an ingest key has no scopes; it only writes")
    config = reach(data_dir)
    with session_of(config) as session:
        owner = get_account(session, email)
        if kind == "ingest-key":
            key = mint_ingest_key(session, owner)
            fields = {"ingest_key": key, "dsn": make_dsn(config.base_url, key)}
        else:
            fields = {"read_token": mint_read_token(session, owner, scopes or SCOPES)}
        session.commit()
    print_fields(fields, as_json)


@contextmanager
def session_of(config: Config) -> Iterator[Session]:
    engine = make_engine(config)
    try:
        with make_sessions(engine)() as session:
            yield session
    finally:
        engine.dispose()


def create_account(session: Session, email: str, plan: str) -> Account:
    address = find_address(email)
    if address is None:
        raise CommandError("that is no email address")
    created = Account(email=address)
    if KEY_LIMITS[plan]:
        created.subscriptions = [Subscription(plan=plan, status="active", provider=COMP)]
    session.add(created)
    return created


def get_account(session: Session, email: str) -> Account:
    found = find_account(session, email)
    if found is None:
        raise CommandError(f"there is no account of {email}")
    return found


def mint_ingest_key(session: Session, owner: Account, label: str = "") -> str:
    """A new ingest key, if the plan allows one more."""
    try:
        _, key = add_ingest_key(session, owner, label)
    except KeyLimitError as error:
        raise CommandError(str(error)) from error
    return key


def mint_read_token(
    session: Session, owner: Account, scopes: tuple[str, ...], label: str = ""
) -> str:
    row, token = ReadToken.minted(owner.id, scopes=scopes, label=label)
    session.add(row)
    return token
