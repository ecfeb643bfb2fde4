"""`python -m service`: the service's commands where no console program is installed."""

import click

from service.cli import register


@click.group()
def main() -> None:
    """Run the service and its parts."""


if __name__ == "__main__":
    register(main)
    main(prog_name="python -m service")
