"""tallystick connect and reconcile: a provider's reports, and the bill explained."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
from rich.table import Table
from sqlalchemy import select
from sqlalchemy.orm import Session

from detectors.cli.terminal import report_console
from detectors.errors import DetectorError
from detectors.wording.figures import percent, usd
from service.cli.account import get_account, session_of
from service.cli.command import CommandError, data_command, reach
from service.cli.output import print_fields
from service.config import Config
from service.connections import list_providers
from service.connections.exports import read_export
from service.jobs.queues import AuditQueues
from service.models.connections.agent_totals import list_agent_months
from service.models.connections.bill import list_months
from service.models.connections.connections import ConnectionLimitError
from service.models.identity.accounts import Account
from service.models.identity.security_events import EventKind, add_security_event
from service.operations.connections.agent_totals import compare_agents
from service.operations.connections.by_hand import describe_reading, store_reading, warn_of_unused
from service.operations.connections.connecting import (
    KeyRefusedError,
    describe_sight,
    find_provider,
    try_key,
)
from service.operations.connections.connecting import connect as connect_account
from service.operations.connections.reconciliation import reconcile_all
from service.operations.connections.wording import (
    name_part,
    name_provider,
    summarize,
    summarize_agent,
)
from service.web.schemas.reconciliation import (
    ReconciliationListSchema,
    describe,
    describe_agent,
)

_KEY_PROMPT: Final = "Admin key"


@click.command()
@click.argument("provider")
@click.argument("email")
@click.option("--label", default="", help="A name, to tell several organizations apart.")
@data_command
def connect(provider: str, email: str, label: str, data_dir: Path | None) -> None:
    """Pull a provider's usage and costs into an account.

    The admin key is asked for, or read from standard input. It never appears in the list of
    processes.
    """
    config = reach(data_dir)
    known = find_provider(config, provider)
    if known is None:
        if config.connections != "on":
            raise CommandError("connections are turned off in this installation (CONNECTIONS)")
        raise CommandError(f"choose a provider: {', '.join(sorted(list_providers()))}")
    if known.key_is_file:
        if sys.stdin.isatty():
            raise CommandError(f"give the key's file on standard input: {known.key_words}")
        key = sys.stdin.read()
    elif sys.stdin.isatty():
        click.echo(f"You need {known.key_words}: {known.key_page}")
        key = click.prompt(_KEY_PROMPT, hide_input=True)
    else:
        key = sys.stdin.readline()
    with session_of(config) as session:
        account_id = get_account(session, email).id
        session.commit()
        try:
            sight = try_key(config, known, key.strip())
            connection = connect_account(
                session, account_id, known, key.strip(), sight, label=label[:60]
            )
        except KeyRefusedError as error:
            raise CommandError(str(error)) from error
        add_security_event(session, account_id, EventKind.CONNECTION_ADDED, {"provider": provider})
        session.commit()
        AuditQueues.from_config(config).enqueue_pull(connection.id)
    click.echo(f"Connected {known.title}: {describe_sight(sight)}. The first pull has started.")


@click.command()
@click.argument("given", nargs=-1, metavar="[EMAIL] [FILE]...")
@click.option("--month", metavar="YYYY-MM", help="Only this month, with its parts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@data_command
def reconcile(
    given: tuple[str, ...], month: str | None, as_json: bool, data_dir: Path | None
) -> None:
    """Explain what providers billed by reports and calls.

    A FILE is a report that you downloaded from a provider. It is stored first, in place of what was
    stored by hand about its days. Without an EMAIL, the installation's only account is meant.
    """
    config = reach(data_dir)
    emails = [each for each in given if "@" in each and not Path(each).exists()]
    with session_of(config) as session:
        account = _find_account(session, emails)
        for file in (Path(each) for each in given if each not in emails):
            said = _store(config, session, account.id, file)
            click.echo(f"{file.name}: {said}", err=as_json)
        wanted = None
        if month:
            try:
                wanted = datetime.strptime(month, "%Y-%m").date()  # noqa: DTZ007 - its days are UTC
            except ValueError as error:
                raise CommandError("write the month as 2026-03") from error
        known = (list_months(session, account.id), list_agent_months(session, account.id))
        bills, counted = ([each for each in one if wanted in (None, each[0])] for one in known)
        months = reconcile_all(session.connection(), account.id, bills)
        agents = compare_agents(session.connection(), account.id, counted)
    if as_json:
        answer = {
            "reconciliations": [describe(each) for each in months],
            "agents": [describe_agent(each) for each in agents],
        }
        print_fields(ReconciliationListSchema().dump(answer), as_json)
        return
    if not months and not agents:
        raise CommandError("no reports yet; run `tallystick connect`, or name a report's file")
    console = report_console()
    for each in months:
        console.print(f"{each.month:%b %Y}: {summarize(each)}", markup=False)
        if wanted is None:
            continue
        table = Table("Part", "Amount", title=f"{name_provider(each.provider)}, {each.month:%b %Y}")
        table.columns[1].justify = "right"
        table.add_row("Counted", usd(each.counted_usd))
        for part in each.parts:
            table.add_row(name_part(part.kind), usd(part.usd))
        table.add_row("Billed", usd(each.billed_usd))
        if each.coverage is not None:
            table.caption = f"Coverage {percent(float(each.coverage * 100))}"
        console.print(table)
    for agent in agents:
        console.print(f"{agent.month:%b %Y}: {summarize_agent(agent)}", markup=False)


def _find_account(session: Session, emails: Sequence[str]) -> Account:
    if len(emails) == 1:
        return get_account(session, emails[0])
    accounts = session.scalars(select(Account).limit(2)).all()
    if emails or len(accounts) != 1:
        raise CommandError("name one account by its email address")
    return accounts[0]


def _store(config: Config, session: Session, account_id: str, file: Path) -> str:
    """Store a report, and return what it is."""
    try:
        with file.open("rb") as stream:
            reading = read_export(stream)
        held = store_reading(session, account_id, reading)
    except OSError as error:
        raise CommandError(f"we can't read {file.name}: {error.strerror}") from error
    except DetectorError as error:
        raise CommandError(f"{file.name}: {error}") from error
    except ConnectionLimitError as error:
        raise CommandError("this account has as many connections as it may have") from error
    unused = warn_of_unused(session, held)
    session.commit()
    AuditQueues.from_config(config).enqueue_pull(held.id)
    return f"{describe_reading(reading)}. {unused}" if unused else describe_reading(reading)
