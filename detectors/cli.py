"""The console command: `tallystick audit` and `scrub`, and the group that other packages extend.

A package adds commands through the entry-point group `tallystick.commands`: each entry point is a
callable `register(group)`. They are loaded only when a command is asked for that is not here, so
that an audit of a file needs none of their libraries.
"""

import sys
from errno import EISDIR
from importlib.metadata import entry_points
from os import strerror
from pathlib import Path

import click

import detectors
from detectors.console import BadInputError, long_progress, shown, standard_output
from detectors.contract import Report
from detectors.errors import DetectorError
from detectors.scrub.command import scrub
from detectors.terminal import print_report, report_console

ENTRY_POINT_GROUP = "tallystick.commands"
STANDARD_INPUT = Path("-")


class ExtensibleGroup(click.Group):
    """A group whose further commands come from entry points, loaded when first needed."""

    is_loaded = False
    left_out: tuple[str, ...] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        self.load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            self.load()
            command = super().get_command(ctx, cmd_name)
        if command is None and self.left_out:
            raise click.UsageError(f"No such command. {self._missing()}", ctx)
        return command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.left_out:
            formatter.write_paragraph()
            formatter.write_text(self._missing())

    def load(self) -> None:
        """Let every entry point register; one whose libraries are not installed is left out.

        Any other failure is a defect of that package and is not hidden.
        """
        if self.is_loaded:
            return
        self.is_loaded = True
        for entry_point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                entry_point.load()(self)
            except ModuleNotFoundError:
                self.left_out += (entry_point.name,)

    def _missing(self) -> str:
        names = ", ".join(self.left_out)
        return f"Not available, since a library is missing: the commands of {names}."


@click.group(cls=ExtensibleGroup)
def main() -> None:
    """Find the waste in a language-model bill, from counts alone."""


@click.group()
def library() -> None:
    """Find the waste in a language-model bill, from counts alone."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--json",
    "destination",
    metavar="OUT",
    help="Write the report document to OUT; '-' writes only that, to standard output.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many findings to print.",
)
def audit(file: Path, destination: str | None, top: int) -> None:
    """Audit a usage log and print what could be saved, dearest first.

    FILE is OpenAI-style JSONL, Anthropic-style JSONL or CSV, plain or gzipped; '-' is standard
    input.
    """
    report = _audit(file)
    if destination not in (None, "-"):
        _write(Path(destination), report)
    with standard_output():
        if destination == "-":
            click.echo(report.to_json())
        else:
            print_report(report, report_console(), top)


def _audit(file: Path) -> Report:
    try:
        if file == STANDARD_INPUT:
            return detectors.audit(detectors.read(sys.stdin.buffer))
        if file.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        with long_progress("Auditing", file.stat().st_size) as progress:
            return detectors.audit(detectors.read(file, progress=progress))
    except DetectorError as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror or error}") from error


def _write(file: Path, report: Report) -> None:
    try:
        file.write_bytes(report.to_json() + b"\n")
    except OSError as error:
        raise BadInputError(f"cannot write {shown(file)}: {error.strerror}") from error


for group in (main, library):
    group.add_command(audit)
    group.add_command(scrub)
