"""`tallystick scrub RAW... --out FILE`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click
from rich.filesize import decimal

from detectors.cli.console import BadInputError, long_progress, shown, standard_output
from detectors.errors import DetectorError
from detectors.scrub.duplicates import WINDOW
from detectors.scrub.files import find_files, writing
from detectors.scrub.scrubber import Scrubber, Summary
from detectors.wording.figures import counted

STANDARD: Final = Path("-")
EXPECTED: Final = (
    "expected JSON lines, or one JSON array, of requests with their responses, batch outputs, "
    "sessions of Claude Code, or exports of LiteLLM or Langfuse"
)

Show = Callable[[int, int], None] | None


@click.command()
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
def scrub(sources: tuple[Path, ...], destination: Path) -> None:
    """Turn raw logs with text in them into one counts-only log.

    RAW are files or folders: what OpenAI's and Anthropic's interfaces were asked and answered,
    batch outputs, sessions of Claude Code (~/.claude/projects), exports of LiteLLM and Langfuse;
    plain or gzipped, mixed as they come. '-' is standard input. Nothing leaves this machine, and no
    text is written: a prompt leaves only a hash that tells equal ones.
    """
    scrubber = Scrubber()
    with _reading_refused(), _output(destination) as out:
        for lines in _scrub_all(scrubber, _find_logs(sources, destination)):
            out.write(lines)
        if not scrubber.summary.calls:
            raise BadInputError(f"no call was found: {EXPECTED}.{_left_out(scrubber.summary)}")
    click.echo(_told(scrubber.summary, destination), err=destination == STANDARD)


@contextmanager
def _reading_refused() -> Iterator[None]:
    """What cannot be written, told in one line; what cannot be read has been told by then."""
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
    """The files to read, never the one to be written."""
    written = None if destination == STANDARD else destination.resolve()
    if any(source.resolve() == written for source in sources):
        raise BadInputError(f"{shown(destination)} is to be read and to be written")
    logs = [log for source in sources for log in find_files(source) if log.resolve() != written]
    if not logs:
        raise BadInputError(f"no file ending in .jsonl or .json there: {EXPECTED}")
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
            yield from scrubber.read(sys.stdin.buffer)
            return
        with log.open("rb") as file:
            yield from scrubber.read(file, advance)
    except DetectorError as error:
        raise BadInputError(f"{shown(log)}: {error}") from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(log)}: {error.strerror or error}") from error


def _size_of(log: Path) -> int:
    return log.stat().st_size if log.is_file() else 0


def _told(summary: Summary, destination: Path) -> str:
    where = "standard output" if destination == STANDARD else shown(destination)
    calls, files = counted(summary.calls, "call"), counted(summary.files, "file")
    return (
        f"{calls} from {files} {'is' if summary.calls == 1 else 'are'} in {where}: "
        f"{decimal(summary.bytes_read)} with text read, {decimal(summary.bytes_written)} of counts "
        f"written; {summary.hashed:,} with the hash of the prompt.{_left_out(summary)}"
    )


def _left_out(summary: Summary) -> str:
    """The reasons, one a line."""
    if not summary.dropped:
        return ""
    reasons = "".join(f"\n  {count:>12,} {reason}" for reason, count in summary.reasons())
    return f"\nLeft out (repetitions among the latest {WINDOW:,} calls at least):{reasons}"
