"""A service that runs for one benchmark, and the table of what was measured against its limits."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from service.operations.local.stack import Stack


@dataclass(frozen=True)
class Measured:
    what: str
    beside: str
    value: str
    bar: str
    is_met: bool


@contextmanager
def running_service(name: str, settings: Mapping[str, str]) -> Iterator[Stack]:
    """Run the whole service with these settings, in a folder that is deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"tallystick-{name}-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user where this runs as root
    own = {"PATH": os.environ["PATH"], "LOG_LEVEL": "WARNING", **settings}
    try:
        with Stack(folder / "var", None, own) as stack:
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def print_table(title: str, results: list[Measured]) -> None:
    table = Table(title=title)
    for heading in ("what", "beside it", "measured", "bar", "met"):
        table.add_column(heading)
    for one in results:
        table.add_row(one.what, one.beside, one.value, one.bar, "yes" if one.is_met else "no")
    Console(width=120).print(table)
