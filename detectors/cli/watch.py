"""`tallystick watch`: a collector of coding agents' calls for one machine."""

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Final

import click

from detectors.agents.folders import data_folder
from detectors.agents.ledger import KEPT_DAYS
from detectors.agents.units import DSN, UnitError, install, uninstall, unit_path
from detectors.cli.agents import (
    LEDGER,
    ledger_option,
    open_ledger,
    refuse_options_before_command,
)
from detectors.cli.console import BadInputError, shown

_EVERY_SECONDS: Final = 10.0


@click.group(invoke_without_command=True)
@click.option("--dsn", envvar=DSN, help="Where to send: https://<INGEST_KEY>@<host>.")
@click.option("--label", default="", help="The environment of this machine's calls.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=_EVERY_SECONDS,
    show_default=True,
    help="Seconds between checks.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=KEPT_DAYS,
    show_default=True,
    help="Days to keep calls in the ledger.",
)
@click.option("--once", is_flag=True, help="Check once and exit.")
@click.option("--install", "is_installed", is_flag=True, help="Start at sign-in, and now.")
@click.option("--uninstall", "is_removed", is_flag=True, help="Stop, and remove the unit.")
@click.option("--forget", is_flag=True, help="With --uninstall, delete the ledger too.")
@ledger_option
@click.pass_context
def watch(
    context: click.Context,
    /,
    dsn: str | None,
    label: str,
    every: float,
    days: int,
    once: bool,
    is_installed: bool,
    is_removed: bool,
    forget: bool,
    ledger_path: Path | None,
) -> None:
    """Keep coding agents' calls in a ledger, and send them.

    Follows the folders that `tallystick agents` reads, so that history outlasts the agents' own
    clean-up. With a DSN, from the option or TALLYSTICK_DSN, counts are sent to your account, each
    call once; without one, nothing leaves this machine. Text never does.
    """
    refuse_options_before_command(context)
    if context.invoked_subcommand is not None:
        return
    if is_removed:
        existed = uninstall(os.environ, Path.home())
        click.echo("Removed the unit." if existed else "There was no unit.")
        if forget:
            path = ledger_path or data_folder(os.environ, Path.home()) / LEDGER
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            click.echo(f"Deleted the ledger {shown(path)}.")
        return
    destination = None
    if dsn:
        from detectors.agents.sending import parse_dsn

        destination = parse_dsn(dsn)
        if destination is None:
            raise BadInputError("the DSN must be https://<INGEST_KEY>@<host>")
    if len(label) > 200 or not label.isprintable():
        raise BadInputError("--label has at most 200 characters")
    if is_installed:
        arguments = [f"--every={every:g}", f"--days={days}"]
        arguments += [f"--label={label}"] if label else []
        arguments += [f"--ledger={ledger_path.resolve()}"] if ledger_path else []
        _install(arguments, dsn or "")
        return
    from detectors.agents.watching import Watcher

    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A thread sets it: the wait that the signal interrupts may hold the lock of the event.
        signal.signal(number, lambda *_: Thread(target=stopped.set).start())
    with open_ledger(ledger_path) as ledger:
        watcher = Watcher(ledger, destination, label=label, days=days)
        if once:
            watcher.go_round()
        else:
            watcher.run(every, lambda seconds: not stopped.wait(seconds))


def _install(arguments: list[str], dsn: str) -> None:
    path = unit_path(os.environ, Path.home())
    try:
        install(arguments, dsn, os.environ, Path.home())
    except UnitError as error:
        raise BadInputError(f"wrote {shown(path)}, but {error}") from error
    except OSError as error:
        raise BadInputError(f"cannot write {shown(path)}: {error.strerror}") from error
    click.echo(f"Installed {shown(path)}: it runs now and at sign-in.")
    if not dsn:
        click.echo("Without a DSN, calls stay in the ledger on this machine.")


@watch.command()
@ledger_option
def status(ledger_path: Path | None) -> None:
    """Show when it last looked, what waits to be sent, and what failed."""
    from detectors.agents.watching import read_status

    with open_ledger(ledger_path) as ledger:
        found = read_status(ledger)
        calls, first, unsent = ledger.database.execute(
            "SELECT count(*), min(at), sum(sent IS NULL) FROM calls"
        ).fetchone()
        (waiting,) = ledger.database.execute("SELECT sum(calls) FROM batches").fetchone()
    unit = unit_path(os.environ, Path.home())
    click.echo(f"Unit: {shown(unit) if unit.exists() else 'not installed'}")
    if found:
        ago = time.time() - found["at"]
        try:
            os.kill(found["pid"], 0)
            state = "running"
        except OSError as error:  # another user's process is one, too
            state = "not running" if isinstance(error, ProcessLookupError) else "running"
        click.echo(f"Watch: {state}, last status {ago:,.0f} seconds ago")
    else:
        click.echo("Watch: has not run with this ledger")
    since = f", since {datetime.fromtimestamp(first / 1e6, UTC):%Y-%m-%d}" if first else ""
    click.echo(f"Ledger: {calls:,} calls{since}")
    sent_at = found.get("sent_at")
    if sent_at:
        click.echo(f"Sent last: {datetime.fromtimestamp(sent_at, UTC):%Y-%m-%d %H:%M:%S} UTC")
    if sent_at or waiting:
        click.echo(f"Waiting: {(unsent or 0) + (waiting or 0):,} calls")
    if found.get("error"):
        click.echo(f"Sending failed: {found['error']}")
    for problem in found.get("problems", ()):
        click.echo(f"Not read: {problem}")
