"""tallystick worker, sweeper, metrics and migrate: the parts of the service run by themselves."""

from pathlib import Path

import click

from service.cli.options import data_option, one_line_errors, reach
from service.core.db import migrate as migrate_database
from service.jobs.process import run_mail_worker, run_worker
from service.operations.exporter.server import run_metrics
from service.operations.maintenance.sweeper import run_sweeper


@click.command()
@click.option(
    "--queue",
    type=click.Choice(("audits", "mail")),
    default="audits",
    show_default=True,
    help="What to work on.",
)
@data_option
@one_line_errors
def worker(queue: str, data_dir: Path | None) -> None:
    """Audit, or mail, what is queued, one at a time, until stopped."""
    run = run_mail_worker if queue == "mail" else run_worker
    run(reach(data_dir))


@click.command()
@data_option
@one_line_errors
def sweeper(data_dir: Path | None) -> None:
    """Queue anew what was lost or whose worker died, until stopped."""
    run_sweeper(reach(data_dir))


@click.command()
@data_option
@one_line_errors
def metrics(data_dir: Path | None) -> None:
    """Tell Prometheus how the service does, on METRICS_PORT, until stopped."""
    run_metrics(reach(data_dir))


@click.command()
@data_option
@one_line_errors
def migrate(data_dir: Path | None) -> None:
    """Bring the database's tables up to date."""
    migrate_database(reach(data_dir).database_url)
