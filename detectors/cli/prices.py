"""`tallystick prices`: updates of the price book, and checks of a file with your terms."""

from pathlib import Path

import click

from detectors.cli.console import BadInputError
from detectors.cli.price_file import read_prices
from detectors.errors import PriceUpdateError

_path = click.Path(path_type=Path)


@click.group()
def prices() -> None:
    """Update the price book, and check your own rates and aliases."""


@prices.command()
@click.option(
    "--file", type=_path, help="Store the update in this file instead of your user folder."
)
@click.option("--url", help="Fetch the prices from this URL instead of from genai-prices.")
def update(file: Path | None, url: str | None) -> None:
    """Fetch the latest prices that genai-prices publishes.

    Future audits use them; an update older than the installed version is ignored.
    """
    from detectors.prices import updates

    try:
        book = updates.update(file or updates.default_file(), url)
    except PriceUpdateError as error:
        raise BadInputError(f"{error}; prices are unchanged") from error
    click.echo(f"Prices updated to {book.source} {book.version}.")


@prices.command()
@click.argument("file", type=_path)
def check(file: Path) -> None:
    """Check a TOML FILE of rates and aliases, and print its terms.

    Rates are discounts or negotiated rates.
    """
    book = read_prices(file)
    for line in (*book.negotiated, *book.aliases):
        click.echo(line)
