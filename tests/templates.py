"""Data folders of the embedded servers: made once for all processes of a run, copied by each test.

To initialize PostgreSQL and to create the tables takes ten times as long as to copy both.
"""

import fcntl
import shutil
import subprocess
from pathlib import Path

from service.operations.local.servers import EmbeddedServers
from tests.databases import make_template, migrate_as_owner
from tests.run_folder import run_folder


def make_data_folder(folder: Path, *, with_tables: bool) -> None:
    """Create the data folder of servers that were stopped, as new ones but for the tables."""
    templates = run_folder()
    template = templates / ("migrated" if with_tables else "initialized")
    with (templates / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            unfinished = template.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            (_migrate if with_tables else _initialize)(unfinished, templates)
            unfinished.rename(template)
    _copy(template, folder)


def _initialize(folder: Path, _: Path) -> None:
    with EmbeddedServers(folder):
        pass


def _migrate(folder: Path, templates: Path) -> None:
    initialized = templates / "initialized"
    if initialized.exists():
        _copy(initialized, folder)
    with EmbeddedServers(folder) as servers:
        migrate_as_owner(servers.database_url)
        make_template(servers.database_url)


def _copy(folder: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", folder, to], check=True)
