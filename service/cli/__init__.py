"""The service's commands, handed to the console program through its entry-point group."""

import gc
from collections.abc import Iterator

import click


def register(group: click.Group) -> None:
    """Add every command of the service to the group.

    What is imported stays: a collector that looks through it over and over, and once more at the
    end, doubles the time that a command takes.
    """
    gc.disable()
    try:
        for command in _import_commands():
            group.add_command(command)
    finally:
        gc.freeze()
        gc.enable()


def _import_commands() -> Iterator[click.Command]:
    from service.cli.account import account
    from service.cli.admin import admin
    from service.cli.demo import demo
    from service.cli.processes import metrics, migrate, sweeper, worker
    from service.cli.up import up

    yield from (up, demo, account, admin, migrate, worker, sweeper, metrics)
