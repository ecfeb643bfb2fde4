"""PostgreSQL's own programs: which ones fit the server, and how they connect."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from sqlalchemy import make_url

from service.operations.backup.repository import BackupError
from service.operations.local.placement import find_postgres

DUMP, RESTORE = "pg_dump", "pg_restore"
# Debian's packages; their own program on the path chooses one of these by the machine's clusters.
_INSTALLED: Final = Path("/usr/lib/postgresql")
_VERSION: Final = re.compile(r"\) (\d+)")
_ERROR: Final = re.compile(r"error: (.+)")
_LINE: Final = re.compile("(.+)")
_IRREGULAR: Final = {"connect_timeout": "PGCONNECT_TIMEOUT", "application_name": "PGAPPNAME"}
_INHERITED: Final = ("HOME", "PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY")


def find_program(name: str, version: int) -> tuple[Path, int]:
    """Return the program for a server or a dump of this major version, and its own version.

    The nearest version that isn't older is best: PostgreSQL refuses to dump newer servers, and a
    newer program may use what the server of a restore doesn't know.
    """
    programs = sorted(_INSTALLED.glob(f"*/bin/{name}"))
    if on_path := shutil.which(name):
        programs.insert(0, Path(on_path))
    if (embedded := find_postgres()) and (embedded / "bin" / name).exists():
        programs.append(embedded / "bin" / name)
    found = {_version_of(path): path for path in programs}
    usable = [number for number in found if number >= version]
    if not usable:
        has = ", ".join(str(number) for number in sorted(found) if number) or "none"
        raise BackupError(
            f"{name} of PostgreSQL {version} or later is needed, and this machine has {has};"
            f" install postgresql-client-{version}, or tallystick-server[embedded]"
        )
    return found[min(usable)], min(usable)


class Running:
    """A program at work. `finish` waits for its end, and raises `BackupError` if it failed."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str, errors: BinaryIO) -> None:
        self._process, self._name, self._errors = process, name, errors
        self._input = cast(BinaryIO, process.stdin)
        self.output = cast(BinaryIO, process.stdout)

    def write(self, data: bytes, /) -> int:
        """Send input to the program. What it leaves unread when it succeeds is dropped.

        `pg_restore` reads no further than the last table, which isn't the end of the dump.
        """
        if not self._input.closed:
            try:
                self._input.write(data)
            except BrokenPipeError:
                self.finish()
        return len(data)

    def close_input(self) -> None:
        """End the input; what the program has not read of it is dropped."""
        with suppress(BrokenPipeError):
            self._input.close()

    def finish(self) -> None:
        self.close_input()
        if self._process.wait() != 0:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()
            first = _ERROR.search(said) or _LINE.search(said)
            reason = first.group(1) if first else f"exit status {self._process.returncode}"
            raise BackupError(f"{self._name} failed: {reason}")


@contextmanager
def running(program: Path, *arguments: str, url: str | None = None) -> Iterator[Running]:
    """Run a program until it ends; kill it if the block raises.

    Raises `BackupError` with its first error if it fails. The lines after it may quote a statement
    or a row.
    """
    with TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - a program of PostgreSQL
            [program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(url),
        )
        with process:
            run = Running(process, program.name, errors)
            try:
                yield run
            except BaseException:
                process.kill()
                run.close_input()  # or closing it would raise an error instead of this one
                raise
            run.finish()


@cache
def _version_of(program: Path) -> int:
    """Return the major version of a program; 0 if it doesn't run."""
    ran = subprocess.run(  # noqa: S603 - a program of PostgreSQL
        [program, "--version"], capture_output=True, text=True, check=False
    )
    found = _VERSION.search(ran.stdout)
    return int(found.group(1)) if found else 0


def name_of_database(url: str) -> str:
    """Return what `pg_restore` connects to; the rest of the address is in its environment."""
    return make_url(url).database or ""


def _environment(url: str | None) -> dict[str, str]:
    """Return how to connect, in libpq's variables: everyone can see a program's arguments."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    base = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **inherited}
    if url is None:
        return base
    address = make_url(url)
    own = {
        "PGHOST": address.host,
        "PGPORT": address.port,
        "PGUSER": address.username,
        "PGPASSWORD": address.password,
        "PGDATABASE": address.database,
    }
    parameters = {
        (_IRREGULAR.get(name) or f"PG{name.replace('_', '').upper()}"): value
        if isinstance(value, str)
        else ",".join(value)
        for name, value in address.query.items()
    }
    return {**base, **{name: str(value) for name, value in own.items() if value}, **parameters}
