"""`tallystick scrub RAW... --out FILE`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click
from rich.filesize import decimal

from detectors.cli.console import BadInputError, long_progress, shown, standard_output
from detectors.cli.mapping import mapping_options, read_mapping
from detectors.errors import DetectorError
from detectors.formats.adapters import adapters
from detectors.scrub.files import find_files, writing
from detectors.scrub.scrubber import Scrubber, Summary
from detectors.wording.figures import counted

STANDARD: Final = Path("-")

_EXPECTED: Final = "`tallystick scrub --help` lists the logs and exports to use."

Show = Callable[[int, int], None] | None


class _Scrub(click.Command):
    """The command, whose help ends with the sources; they are imported for that alone."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = ", ".join(adapter.title for adapter in adapters().values())
        formatter.write_paragraph()
        formatter.write_text(f"Reads requests with their responses, and: {titles}.")


@click.command(cls=_Scrub)
@click.argument(
    "sources", nargs=-1, required=True, metavar="RAW...", type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    "destination",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The counts-only log to write; '-' is standard output.",
)
@mapping_options
def scrub(
    sources: tuple[Path, ...],
    destination: Path,
    mapped: tuple[str, ...],
    dropped: tuple[str, ...],
    provider: str,
) -> None:
    """Turn raw logs that contain text into one counts-only log.

    RAW are files or folders: requests and responses of the OpenAI and Anthropic APIs, sessions of
    coding agents, exports of gateways, logs and batch outputs of model providers; plain or gzipped,
    in any mix. '-' is standard input. Nothing leaves this machine, and no text is written: of a
    prompt only a hash remains, to find equal prompts. With --map, --drop or --provider, RAW are CSV
    files of any other tool.
    """
    scrubber = Scrubber(read_mapping(mapped, dropped, provider))
    with _one_line_errors(), _output(destination) as out:
        for lines in _scrub_all(scrubber, _find_logs(sources, destination)):
            out.write(lines)
        out.writelines(scrubber.close())
        if not scrubber.summary.calls:
            raise BadInputError(f"We found no calls: {_EXPECTED}{_dropped(scrubber.summary)}")
    click.echo(_describe(scrubber.summary, destination), err=destination == STANDARD)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn errors of writing into a one-line error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInputError(f"cannot write the output: {error.strerror or error}") from error


@contextmanager
def _to_standard_output() -> Iterator[BinaryIO]:
    with standard_output():
        yield sys.stdout.buffer


def _output(destination: Path) -> AbstractContextManager[BinaryIO]:
    return _to_standard_output() if destination == STANDARD else writing(destination)


def _find_logs(sources: tuple[Path, ...], destination: Path) -> list[Path]:
    """Return the files to read, without the output file."""
    written = None if destination == STANDARD else destination.resolve()
    if any(source.resolve() == written for source in sources):
        raise BadInputError(f"{shown(destination)} cannot be both input and output")
    logs = [log for source in sources for log in find_files(source) if log.resolve() != written]
    if not logs:
        raise BadInputError(f"We found no files ending in .jsonl, .json or .csv: {_EXPECTED}")
    return logs


def _scrub_all(scrubber: Scrubber, logs: list[Path]) -> Iterator[bytes]:
    total, done = sum(map(_size_of, logs)), 0
    with long_progress("Scrubbing", total) as show:
        for log in logs:
            yield from _scrub_one(scrubber, log, _from(show, done, total))
            done += _size_of(log)


def _from(show: Show, before: int, total: int) -> Callable[[int], None]:
    def advance(done: int) -> None:
        if show:
            show(before + done, total)

    return advance


def _scrub_one(scrubber: Scrubber, log: Path, advance: Callable[[int], None]) -> Iterator[bytes]:
    try:
        if log == STANDARD:
            yield from scrubber.add(sys.stdin.buffer)
            return
        with log.open("rb") as file:
            yield from scrubber.add(file, advance)
    except DetectorError as error:
        raise BadInputError(f"{shown(log)}: {error}") from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(log)}: {error.strerror or error}") from error


def _size_of(log: Path) -> int:
    return log.stat().st_size if log.is_file() else 0


def _describe(summary: Summary, destination: Path) -> str:
    where = "standard output" if destination == STANDARD else shown(destination)
    calls, files = counted(summary.calls, "call"), counted(summary.files, "file")
    return (
        f"Wrote {calls} from {files} to {where}: read {decimal(summary.bytes_read)} with text, "
        f"wrote {decimal(summary.bytes_written)} of counts; {summary.hashed:,} with a prompt hash."
        f"{_dropped(summary)}"
    )


def _dropped(summary: Summary) -> str:
    """List the reasons of dropped objects, one per line."""
    if not summary.dropped:
        return ""
    reasons = "".join(f"\n  {count:>12,} {reason}" for reason, count in summary.reasons())
    return f"\nDropped:{reasons}"
