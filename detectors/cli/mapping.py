"""`--map`, `--drop` and `--provider`: columns or members of JSON with other names."""

from collections.abc import Iterable
from typing import Final

import click

from detectors.cli.console import BadInputError, with_options
from detectors.errors import ColumnMappingError
from detectors.formats import ColumnMapping, read_pairs

mapping_options: Final = with_options(
    click.option(
        "--map",
        "mapped",
        metavar="THEIRS=OURS",
        multiple=True,
        help="Read a column, or a member of JSON such as a.b, as the field OURS; once per name.",
    ),
    click.option(
        "--drop",
        "dropped",
        metavar="COLUMN",
        multiple=True,
        help="Ignore a column or a member of JSON; once per name.",
    ),
    click.option(
        "--provider",
        metavar="NAME",
        default="",
        help="The model provider of every call, for a file that doesn't say, or by-model.",
    ),
)


def read_mapping(
    mapped: Iterable[str], dropped: Iterable[str], provider: str
) -> ColumnMapping | None:
    try:
        return read_pairs([*mapped, *(f"{name}=" for name in dropped)], provider.lower())
    except ColumnMappingError as error:
        raise BadInputError(str(error)) from error
