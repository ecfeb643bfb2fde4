"""tallystick keys: replace the secret key and the encryption key without failing requests."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from service.cli.command import USUAL_DATA_DIR, CommandError, data_command, reach
from service.core.db import make_engine
from service.core.sealing import Sealer
from service.operations import key_files
from service.operations.key_files import KeyFiles
from service.operations.maintenance.resealing import count_values, reseal

_NAMES: Final = {
    "secret": key_files.SECRET_KEY,
    "encryption": key_files.ENCRYPTION_KEY,
}
_name_argument = click.argument("name", type=click.Choice(tuple(_NAMES)))


@click.group()
def keys() -> None:
    """Replace keys in three steps: add, use, drop. Restart the processes after each."""


@keys.command()
def new() -> None:
    """Print a new random key, for any setting that is a secret."""
    click.echo(key_files.new_key())


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
        f"{_NAMES[name]}{key_files.FALLBACKS}": "",
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


def _find(name: str, data_dir: Path | None) -> KeyFiles:
    return KeyFiles.find(_NAMES[name], os.environ, data_dir or USUAL_DATA_DIR)
