"""tallystick doctor: look for what is wrong, and say what to do."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from service.cli.command import USUAL_DATA_DIR, CommandError, data_option, one_line_errors, reach
from service.config import read_secrets
from service.errors import ConfigError
from service.operations.doctor import findings, machine, servers
from service.operations.doctor.findings import FAIL, OK, STATUSES, WARN, Diagnosis
from service.operations.local.run_state import find_state

_COLORS: Final = {OK: "green", WARN: "yellow", FAIL: "red"}


@click.command()
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@one_line_errors
def doctor(data_dir: Path | None, as_json: bool) -> None:
    """Check settings, versions, permissions, servers and backups.

    Also checks clocks, queues and disks. Changes nothing. Exits with 0 if everything is fine, 1
    after a warning and 2 after a failure.
    """
    found = []
    for finding in _look(data_dir):
        found.append(finding)
        if not as_json:
            shown = click.style(f"{finding.status:<4}", fg=_COLORS[finding.status])
            click.echo(f"{shown}  {finding.area:<11}  {finding.message}")
            if finding.advice:
                click.echo(f"{'':19}→ {finding.advice}")
    counts = {status: sum(one.status == status for one in found) for status in STATUSES}
    if as_json:
        click.echo(msgspec.json.encode({**counts, "findings": [one._asdict() for one in found]}))
    else:
        click.echo(", ".join(f"{status}: {number}" for status, number in counts.items()))
    sys.exit(findings.exit_code(found))


def _look(data_dir: Path | None) -> Iterator[Diagnosis]:
    try:
        environment = read_secrets(os.environ)
        config = reach(data_dir)
    except (CommandError, ConfigError) as error:
        yield Diagnosis("settings", FAIL, str(error), "see docs/settings.md")
        return
    # `reach` takes the settings from the folder unless the environment names a database.
    uses_folder = data_dir is not None or not environment.get("DATABASE_URL")
    folder = (data_dir or USUAL_DATA_DIR) if uses_folder else None
    state = (find_state(folder) if folder else None) or {}
    environment |= state
    # Each whatever the others find, in the order in which someone would look.
    checks: tuple[tuple[str, Iterable[Diagnosis]], ...] = (
        ("settings", machine.check_names(environment)),
        ("settings", machine.check_values(config)),
        ("versions", machine.check_versions()),
        ("permissions", machine.check_permissions(folder)),
        ("database", servers.check_database(config)),
        ("keys", servers.check_keys(config)),
        ("redis", servers.check_redis(config)),
        ("storage", machine.check_storage(config)),
        ("disk", machine.check_disks(config, folder)),
        ("queue", servers.check_work(config)),
        ("mail", servers.check_mail(config)),
        ("payments", servers.check_payments(config)),
        ("backups", servers.check_backups(environment)),
        ("web", servers.check_web(config)),
        ("spark", servers.check_spark(config)),
    )
    for area, check in checks:
        yield from findings.run_check(area, check)
