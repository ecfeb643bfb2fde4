"""The service's commands, handed to the console program through its entry-point group."""

import click

from service.commands.account import account
from service.commands.admin import admin
from service.commands.demo import demo
from service.commands.processes import metrics, migrate, sweeper, worker
from service.commands.up import up


def register(group: click.Group) -> None:
    """Add every command of the service to the group."""
    for command in (up, demo, account, admin, migrate, worker, sweeper, metrics):
        group.add_command(command)
