"""`--map`, `--drop` and `--provider`: the columns of a CSV with other names."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from detectors.cli.console import BadInputError
from detectors.contract import FIELD_NAME
from detectors.errors import ColumnMappingError
from detectors.formats import ColumnMapping, lacks_provider, propose, read_pairs

if TYPE_CHECKING:
    from detectors.formats import ProposedColumn

_MAX_PROPOSED: Final = 40
_F = TypeVar("_F", bound=Callable[..., Any])
_OPTIONS: Final = (
    click.option(
        "--map",
        "mapped",
        metavar="THEIRS=OURS",
        multiple=True,
        help="Read a CSV's column THEIRS as the field OURS; once per column.",
    ),
    click.option(
        "--drop",
        "dropped",
        metavar="COLUMN",
        multiple=True,
        help="Ignore a CSV's column; once per column.",
    ),
    click.option(
        "--provider",
        metavar="NAME",
        default="",
        help="The model provider of every call, for a CSV without such a column.",
    ),
)


def mapping_options(command: _F) -> _F:
    """Add the options that map columns."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_mapping(
    mapped: Iterable[str], dropped: Iterable[str], provider: str
) -> ColumnMapping | None:
    """Return the mapping of the options; None if none is given."""
    try:
        return read_pairs([*mapped, *(f"{name}=" for name in dropped)], provider.lower())
    except ColumnMappingError as error:
        raise BadInputError(str(error)) from error


def propose_options(columns: Sequence[str]) -> str:
    """Return the options that map a foreign CSV, as its column names suggest."""
    proposed = propose(columns)
    options = [
        _option(number, column)
        for number, column in enumerate(proposed[:_MAX_PROPOSED], 1)
        if column.name != column.field
    ]
    if lacks_provider(proposed):
        options.append("--provider openai")
    return " ".join(options)


def _option(number: int, column: "ProposedColumn") -> str:
    name = column.name if FIELD_NAME.fullmatch(column.name) else f"#{number}"
    if column.field:
        return f"--map {shlex.quote(f'{name}={column.field}')}"
    return f"--drop {shlex.quote(name)}"
