"""Shared by all commands: `--data`, how they reach the service, and errors as one line."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import click
from sqlalchemy.exc import OperationalError

from service.config import Config, read_secrets
from service.config.secret_files import overlay
from service.core.db import why_unusable
from service.errors import ConfigError, ServiceError
from service.operations.local.handle import ServersError
from service.operations.local.run_state import find_state

USUAL_DATA_DIR = Path("var")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CommandError(click.ClickException):
    """An error shown as one line at the terminal."""

    exit_code = 2


class UnreachableError(CommandError):
    """The database doesn't answer: the same command may succeed later.

    The unit of the migration in `deploy/systemd` runs it again after this exit status.
    """

    exit_code = os.EX_TEMPFAIL


data_option = click.option(
    "--data",
    "data_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"The data folder of `tallystick up`.  [default: {USUAL_DATA_DIR}]",
)


def one_line_errors(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Show a command's expected errors as one line."""

    @functools.wraps(command)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except OperationalError as error:
            if why := _UNUSABLE.get(why_unusable(error)):
                raise CommandError(why) from error
            raise UnreachableError("can't connect to the database") from error
        except (ServersError, ServiceError) as error:
            raise CommandError(" ".join(str(error).split())) from error

    return guarded


def data_command(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Add the option `--data` to a command, and show its expected errors as one line."""
    return data_option(one_line_errors(command))


_UNUSABLE: Final = {
    "full": "the disk of the database is full; free some space, and run the command again",
    "rejected": "the database rejected the user or password; check the database address",
    "missing": "the database or its user doesn't exist; check the database address",
}


def reach(data_dir: Path | None) -> Config:
    """Return the settings of a running service; raise `CommandError` if none is running.

    They come from `tallystick up` in the data folder, or from the environment if it names a
    database and no folder is given. The environment may set whatever `up` doesn't.
    """
    environment = read_secrets(os.environ)
    if data_dir is None and environment.get("DATABASE_URL"):
        try:
            return Config.from_environment(environment)
        except ConfigError as error:
            raise CommandError(
                f"{error} (DATABASE_URL is set, so all settings come from the environment; "
                "use --data DIR to reach a running tallystick up instead)"
            ) from error
    folder = data_dir or USUAL_DATA_DIR
    state = find_state(folder)
    if state is None:
        option = f" --data {folder}" if data_dir else ""
        raise CommandError(
            f"tallystick isn't running in {folder}; start it with: tallystick up{option}"
        )
    # The job that a worker forks reads its settings from the environment.
    for name in set(os.environ) - set(overlaid := overlay(os.environ, state)):
        del os.environ[name]
    os.environ.update(overlaid)
    return Config.from_environment({**environment, **state})
