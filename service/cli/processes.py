"""tallystick worker, sweeper, metrics and migrate: run one part of the service."""

from pathlib import Path
from typing import Final

import click

from service.cli.command import data_command, reach
from service.core.db import (
    downgrade,
    list_revisions,
    list_undone,
    migrate_tables,
    owner_url,
    write_sql,
)
from service.jobs.process import run_mail_worker, run_notice_worker, run_worker
from service.operations.exporter.server import run_metrics
from service.operations.maintenance.sweeper import run_sweeper

_WORKERS: Final = {"audits": run_worker, "mail": run_mail_worker, "notices": run_notice_worker}


@click.command()
@click.option(
    "--queue",
    type=click.Choice(tuple(_WORKERS)),
    default="audits",
    show_default=True,
    help="The queue to process.",
)
@data_command
def worker(queue: str, data_dir: Path | None) -> None:
    """Process queued audits, mails or notices until stopped.

    A process has one at a time; start several for more.
    """
    _WORKERS[queue](reach(data_dir))


@click.command()
@data_command
def sweeper(data_dir: Path | None) -> None:
    """Queue lost audits and mails again, and clean up, until stopped."""
    run_sweeper(reach(data_dir))


@click.command()
@data_command
def metrics(data_dir: Path | None) -> None:
    """Serve metrics for Prometheus on METRICS_PORT, until stopped."""
    run_metrics(reach(data_dir))


@click.command()
@click.option(
    "--to",
    "revision",
    metavar="REVISION",
    default="head",
    help="The revision, such as 0029, -1 for the one before, or base.  [default: the latest]",
)
@click.option("--yes", "is_sure", is_flag=True, help="Downgrade without asking.")
@click.option("--sql", "is_sql", is_flag=True, help="Print the SQL and change nothing.")
@data_command
def migrate(revision: str, is_sure: bool, is_sql: bool, data_dir: Path | None) -> None:
    """Migrate the database to the latest version, or to another.

    A downgrade deletes what the later versions have added.
    """
    if is_sql:
        write_sql(revision)
        return
    config = reach(data_dir)
    target, undone = list_undone(owner_url(config), revision)
    if target not in list_revisions():
        click.echo(
            f"The tables stay at revision {target}, which this release doesn't know.", err=True
        )
    if undone:
        click.echo(
            f"This undoes {', '.join(undone)}. It deletes the tables and columns that they added,"
            " with their content. Stop all processes and make a backup first.",
            err=True,
        )
        if not is_sure:
            click.confirm(f"Downgrade to {target}?", abort=True, err=True)
        downgrade(owner_url(config), target)
    elif target != "base" and not migrate_tables(config, target):
        click.echo(
            "Note: the role in DATABASE_URL owns the tables, so a leak of it can change append-only"
            " tables; set MIGRATION_DATABASE_URL to separate them.",
            err=True,
        )
