"""tallystick worker, sweeper, metrics and migrate: run one part of the service."""

from pathlib import Path
from typing import Final

import click

from service.cli.options import data_option, one_line_errors, reach
from service.core.db import migrate_tables
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
@data_option
@one_line_errors
def worker(queue: str, data_dir: Path | None) -> None:
    """Process queued audits, mails or notices, one at a time, until stopped."""
    _WORKERS[queue](reach(data_dir))


@click.command()
@data_option
@one_line_errors
def sweeper(data_dir: Path | None) -> None:
    """Queue lost audits and mails again, and clean up, until stopped."""
    run_sweeper(reach(data_dir))


@click.command()
@data_option
@one_line_errors
def metrics(data_dir: Path | None) -> None:
    """Serve metrics for Prometheus on METRICS_PORT, until stopped."""
    run_metrics(reach(data_dir))


@click.command()
@data_option
@one_line_errors
def migrate(data_dir: Path | None) -> None:
    """Migrate the database to the latest version."""
    if not migrate_tables(reach(data_dir)):
        click.echo(
            "Note: the role in DATABASE_URL owns the tables, so a leak of it can change append-only"
            " tables; set MIGRATION_DATABASE_URL to separate them.",
            err=True,
        )
