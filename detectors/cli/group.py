"""The command group `tallystick`: the library's commands, and those of other packages.

A package adds commands through the entry-point group `tallystick.commands`: each entry point is a
callable `register(group)`. They load only for a command that is not defined here, so an audit of a
file needs none of their libraries. The library's own commands load when they run or are listed.
"""

from importlib.metadata import entry_points
from typing import Any, Final

import click

from detectors.cli.console import leave
from detectors.cli.imports import import_uncollected

ENTRY_POINT_GROUP = "tallystick.commands"
_SERVICE: Final = "service"  # the entry point of our own extra
_INSTALL: Final = 'pip install "tallystick-server[service,embedded]"'
# Each is a module of this package, with a command of this name.
_COMMANDS: Final = ("agents", "audit", "compare", "prices", "scrub", "watch")


class LibraryGroup(click.Group):
    """The library's commands. Called without arguments, it is the process, which it may end."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*_COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module = import_uncollected(f"detectors.cli.{cmd_name}")
            self.add_command(getattr(module, cmd_name))
        return super().get_command(ctx, cmd_name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        try:
            return super().__call__(*args, **options)
        except SystemExit as ending:
            if not args and "args" not in options:
                leave(ending.code)
            raise


class ExtensibleGroup(LibraryGroup):
    """A group that loads further commands from entry points when they are first needed."""

    is_loaded = False
    missing: tuple[str, ...] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        self.load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            self.load()
            command = super().get_command(ctx, cmd_name)
        if command is None and self.missing:
            raise click.UsageError(f"No such command {cmd_name!r}. {self._missing()}", ctx)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.missing:
            formatter.write_paragraph()
            for line in self._missing().splitlines():  # each wrapped, so the command stays whole
                formatter.write_text(line)

    def load(self) -> None:
        """Register the commands of every entry point whose libraries are installed.

        Any other error is a bug in that package and is not hidden.
        """
        if self.is_loaded:
            return
        self.is_loaded = True
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                entry_point.load()(self)
            except ModuleNotFoundError:
                self.missing += (entry_point.name,)

    def _missing(self) -> str:
        said = f"The {' and '.join(self.missing)} commands need libraries that aren't installed."
        return f"{said} To install them, run:\n{_INSTALL}" if _SERVICE in self.missing else said


_version = click.version_option(
    package_name="tallystick-server", prog_name="tallystick", message="%(prog)s %(version)s"
)


@click.group(cls=ExtensibleGroup)
@_version
def main() -> None:
    """Find avoidable spend in your LLM bill, from usage counts alone."""


@click.group(cls=LibraryGroup)
@_version
def library() -> None:
    """Find avoidable spend in your LLM bill, from usage counts alone."""
