"""Print the fields of one object, or a table of several."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec


def print_fields(fields: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(fields))
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        click.echo(f"{name:<{width}}  {_shown(value)}")


def print_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    lines = [names, *([_shown(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
