"""tallystick up: the whole service on this machine until a signal stops it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import click

from service.cli.account import make_owner_link
from service.cli.command import USUAL_DATA_DIR, CommandError, data_command
from service.cli.local_calls import LocalService
from service.cli.sample.account import SEEDED_EMAIL, seed
from service.operations.local.handle import ServerStartError
from service.operations.local.stack import USUAL_OWNER, Stack

# What `--reload` watches, as a running process has loaded it: code, templates and the data files
# next to the code.
_WATCHED: Final = ("client", "detectors", "service", "templates", "worker.py")
_ENDINGS: Final = frozenset({".html", ".json", ".py", ".toml", ".txt"})
_STEADY_SECONDS: Final = 0.2

Times = dict[Path, int]

INTERRUPTED = 130  # the exit status after a signal
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="The port to listen on.  [default: 8000, or a free port]",
)


@click.command()
@port_option
@click.option(
    "--owner",
    metavar="EMAIL",
    help="Your email address for signing in. The owner can grant themselves credits.  "
    f"[default: OWNER_EMAIL, or {USUAL_OWNER}]",
)
@click.option("--seed", "is_seeding", is_flag=True, help="Add an account with sample data.")
@click.option(
    "--refuse-root",
    is_flag=True,
    envvar="REFUSE_ROOT",
    help="Stop if root starts this and no ordinary user can access the code or the data.",
)
@click.option("--reload", "is_reloading", is_flag=True, help="Restart when the code changes.")
@data_command
def up(
    port: int | None,
    owner: str | None,
    is_seeding: bool,
    is_reloading: bool,
    refuse_root: bool,
    data_dir: Path | None,
) -> None:
    """Run the service on this machine until Ctrl-C.

    Prints a single-use sign-in link for the owner. PostgreSQL and Redis are included; set
    DATABASE_URL, REDIS_URL and STORAGE_URL to use your own.
    """
    watcher = SourceWatcher() if is_reloading else None
    environment = {**os.environ, **({"OWNER_EMAIL": owner} if owner else {})}
    stack = Stack(data_dir or USUAL_DATA_DIR, port, environment, allow_root=not refuse_root)
    with running(stack):
        config = stack.config
        click.echo(f"Tallystick is ready at {config.base_url} (Ctrl-C stops it)")
        click.echo(f"Sign in as {config.owner_email}: {make_owner_link(config)}")
        if is_seeding:
            click.echo("Adding sample data …", err=True)
            click.echo(f"Sign in as {SEEDED_EMAIL}: {seed(LocalService(config, stack.port))}")
        click.echo(f"(each link works once, for {config.magic_link_minutes} minutes)")
        stack.wait(partial(_reload, stack, watcher) if watcher else None)
        raise CommandError("the supervisor process exited and stopped the service")


class SourceWatcher:
    """Compares the files' modification times with those of the last look."""

    def __init__(self, root: Path = Path(__file__).parents[2]) -> None:
        self._root = root
        self._times = self._look()

    def find_change(self) -> str | None:
        """Return the name of a file that was changed, added or removed, once all are written."""
        times = self._look()
        if times == self._times:
            return None
        time.sleep(_STEADY_SECONDS)  # until an editor or a checkout has written the next file
        while (later := self._look()) != times:
            times = later
            time.sleep(_STEADY_SECONDS)
        changed = {path for path, _ in times.items() ^ self._times.items()}
        self._times = times
        return min(changed).relative_to(self._root).as_posix() if changed else None

    def _look(self) -> Times:
        times: Times = {}
        for name in _WATCHED:
            top = self._root / name
            for path in top.rglob("*") if top.is_dir() else (top,):
                if path.suffix in _ENDINGS:
                    with suppress(FileNotFoundError):  # removed since it was listed
                        times[path] = path.stat().st_mtime_ns
        return times


def _reload(stack: Stack, watcher: SourceWatcher) -> None:
    """Restart web and workers after a change of their code."""
    changed = watcher.find_change()
    if changed is None:
        return
    click.echo(f"{changed} changed. Restarting …")
    try:
        stack.restart_programs()
    except ServerStartError as error:  # the next change may fix it
        click.echo(f"Error: {error}", err=True)
    else:
        click.echo(f"Ready again at {stack.config.base_url}")


@contextmanager
def running(stack: Stack) -> Iterator[None]:
    """Start the stack; stop it in order when the block ends or a signal arrives."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        # A second Ctrl-C must not interrupt the orderly stop.
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in _STOP_SIGNALS}
    try:
        try:
            stack.start()
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        for notice in stack.notices:
            click.echo(f"Note: {notice}", err=True)
        yield
    except KeyboardInterrupt:
        click.echo("Stopping.", err=True)
    finally:
        stack.stop()
        for number, handler in previous.items():
            signal.signal(number, handler)
