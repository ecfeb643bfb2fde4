"""The console command: `tallystick audit FILE`, and the group that other packages extend.

A package adds commands through the entry-point group `tallystick.commands`: each entry point is a
callable `register(group)`. They are loaded only when a command is asked for that is not here, so
that an audit of a file needs none of their libraries.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EISDIR, EPIPE
from importlib.metadata import entry_points
from os import strerror
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

import detectors
from detectors.contract import Report
from detectors.errors import DetectorError
from detectors.labels import inert
from detectors.terminal import print_report, report_console

ENTRY_POINT_GROUP = "tallystick.commands"
STANDARD_INPUT = Path("-")
LONG_FILE_BYTES = 8 * 1024 * 1024


class BadInputError(click.ClickException):
    """One line on stderr and exit status 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(inert(" ".join(message.split())))


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
    with _standard_output():
        if destination == "-":
            click.echo(report.to_json())
        else:
            print_report(report, report_console(), top)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Says in one line what keeps the output from being written, a full disk say."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno == EPIPE:  # a reader that has seen enough, which click ends quietly
            raise
        _forget_output()
        raise BadInputError(f"cannot write standard output: {error.strerror}") from error


def _forget_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter's end would try it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _audit(file: Path) -> Report:
    try:
        if file == STANDARD_INPUT:
            return detectors.audit(detectors.read(sys.stdin.buffer))
        if file.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        with _progress(file) as progress:
            return detectors.audit(detectors.read(file, progress=progress))
    except DetectorError as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"cannot read {_name(file)}: {error.strerror or error}") from error


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Shows on the terminal how far a long file has been read; nothing where nobody watches."""
    if file.stat().st_size < LONG_FILE_BYTES or not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("Auditing", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        yield show


def _write(file: Path, report: Report) -> None:
    try:
        file.write_bytes(report.to_json() + b"\n")
    except OSError as error:
        raise BadInputError(f"cannot write {_name(file)}: {error.strerror}") from error


def _name(file: Path) -> str:
    return click.format_filename(file)


for group in (main, library):
    group.add_command(audit)
