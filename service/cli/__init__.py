"""The service's commands, registered with the console program through its entry-point group."""

import gc

import click


def register(group: click.Group) -> None:
    """Add every command of the service to the group.

    Imported objects are frozen, because garbage collection of them doubles a command's run time.
    """
    gc.disable()
    try:
        from service.cli.access import access, revoke_access
        from service.cli.account import account
        from service.cli.admin import admin
        from service.cli.backup import backup
        from service.cli.connections import connect, reconcile
        from service.cli.demo import demo
        from service.cli.doctor import doctor
        from service.cli.keys import keys
        from service.cli.processes import metrics, migrate, sweeper, worker
        from service.cli.up import up

        account.add_command(access)
        account.add_command(revoke_access)
        for command in (up, demo, account, admin, backup, keys, doctor, connect, reconcile):
            group.add_command(command)
        for command in (migrate, worker, sweeper, metrics):
            group.add_command(command)
    finally:
        gc.freeze()
        gc.enable()
