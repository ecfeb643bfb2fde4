"""tallystick keys: replace the secret key and the encryption key without failing requests."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import click

from service.cli.command import USUAL_DATA_DIR, CommandError, data_command, reach
from service.config.secret_files import SUFFIX
from service.core.db import make_engine
from service.core.durable_files import write_private
from service.core.sealing import Sealer
from service.errors import ConfigError
from service.operations.local import run_state
from service.operations.maintenance.resealing import count_values, reseal

_NAMES: Final = {
    "secret": run_state.SECRET_KEY_NAME,
    "encryption": run_state.ENCRYPTION_KEY_NAME,
}
_name_argument = click.argument("name", type=click.Choice(tuple(_NAMES)))


@click.group()
def keys() -> None:
    """Replace keys in three steps: add, use, drop. Restart the processes after each."""


@keys.command()
def new() -> None:
    """Print a new random key, for any setting that is a secret."""
    click.echo(run_state.new_key())


@keys.command()
@_name_argument
@data_command
def add(name: str, data_dir: Path | None) -> None:
    """Let a new key be accepted."""
    _find(name, data_dir).add()
    click.echo(f"Restart the processes, in any order. Then run: tallystick keys use {name}")


@keys.command()
@_name_argument
@data_command
def use(name: str, data_dir: Path | None) -> None:
    """Use the new key; the old one is still accepted."""
    _find(name, data_dir).use()
    click.echo("Restart the processes, in any order. Then run: tallystick keys reseal")
    click.echo(f"When nothing needs the old key any more, run: tallystick keys drop {name}")


@keys.command()
@_name_argument
@data_command
def drop(name: str, data_dir: Path | None) -> None:
    """Refuse the old key, if nothing is sealed with it."""
    files, config = _find(name, data_dir), reach(data_dir)
    kept: dict[str, Any] = {
        _NAMES[name]: files.load_key(),
        f"{_NAMES[name]}{run_state.FALLBACKS_SUFFIX}": "",
    }
    sealer = Sealer.from_config(replace(config, **kept))
    counts = sum(count_values(make_engine(config)).values(), Counter[str]())
    if lost := sum(count for key_id, count in counts.items() if not sealer.has_key(key_id)):
        raise CommandError(
            f"{lost:,} values need another key; restart the processes, then run:"
            " tallystick keys reseal"
        )
    files.drop()
    click.echo("Restart the processes, in any order. The old key then no longer works.")


@keys.command("reseal")
@data_command
def reseal_all(data_dir: Path | None) -> None:
    """Encrypt every sealed value with the key in use.

    The service may run meanwhile.
    """
    config = reach(data_dir)
    for column, changed in reseal(make_engine(config), Sealer.from_config(config)).items():
        click.echo(f"{column}: {changed:,} values sealed again")


@keys.command()
@data_command
def status(data_dir: Path | None) -> None:
    """Show how many sealed values each key opens."""
    config = reach(data_dir)
    current = Sealer.from_config(config).key_id
    for column, counts in count_values(make_engine(config)).items():
        for key_id, count in counts.most_common():
            used = " (in use)" if key_id == current else ""
            click.echo(f"{column}: {count:,} values, key {key_id}{used}")


@dataclass(frozen=True)
class KeyFiles:
    """The file of the key in use, and the file of the others that are accepted.

    A key is replaced in three steps, with a restart after each. add: every process accepts the new
    key. use: it signs and seals. drop: the old one is refused. With fewer steps, a process that
    already uses the new key would meet one that doesn't know it.
    """

    current: Path
    fallbacks: Path

    @classmethod
    def find(cls, name: str, environment: Mapping[str, str], data_dir: Path) -> Self:
        """Return the files that the environment names, or else those of a data folder."""
        setting = name.upper()
        named = [
            environment.get(f"{each}{SUFFIX}", "") for each in (setting, f"{setting}_FALLBACKS")
        ]
        if all(named):
            return cls(*map(Path, named))
        if any(named) or environment.get(setting):
            raise ConfigError(
                f"set both {setting}{SUFFIX} and {setting}_FALLBACKS{SUFFIX}, or change the"
                " variables where you keep them"
            )
        return cls(data_dir / name, data_dir / f"{name}{run_state.FALLBACKS_SUFFIX}")

    def add(self) -> None:
        """Let a new key be accepted."""
        if self._others():
            raise ConfigError(f"{self.fallbacks} has a key already; use or drop it first")
        self.load_key()  # there must be one to replace
        self._write(self.fallbacks, run_state.new_key())

    def use(self) -> None:
        """Use the accepted key, and accept the one that was in use."""
        key, others = self.load_key(), self._others()
        if not others:
            raise ConfigError(f"{self.fallbacks} has no key; add one first")
        # In this order, a process that starts in between knows both keys.
        self._write(self.fallbacks, " ".join([*others, key]))
        self._write(self.current, others[0])
        self._write(self.fallbacks, " ".join([*others[1:], key]))

    def drop(self) -> None:
        """Accept no other key than the one in use."""
        self.load_key()
        self._write(self.fallbacks, "")

    def load_key(self) -> str:
        try:
            return self.current.read_text().strip()
        except OSError as error:
            raise ConfigError(f"can't read {self.current}: {error.strerror}") from error

    def _others(self) -> list[str]:
        return self.fallbacks.read_text().split() if self.fallbacks.exists() else []

    def _write(self, path: Path, text: str) -> None:
        """Replace a file at once, and keep who may read it; a new one is as that of the key."""
        kept = (path if path.exists() else self.current).stat()
        owner, mode = (kept.st_uid, kept.st_gid), kept.st_mode & 0o777
        write_private(path, f"{text}\n".encode(), owner, mode)


def _find(name: str, data_dir: Path | None) -> KeyFiles:
    return KeyFiles.find(_NAMES[name], os.environ, data_dir or USUAL_DATA_DIR)
