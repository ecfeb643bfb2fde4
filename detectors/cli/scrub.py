"""`tallystick scrub RAW... --out FILE`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import click
from rich.filesize import decimal

from detectors.cli.console import BadInputError, long_progress, shown, standard_output
from detectors.cli.mapping import mapping_options, read_mapping
from detectors.errors import DetectorError
from detectors.formats.adapters import adapters
from detectors.formats.adapters.calls import NO_MODEL, NO_TIME, find_moment
from detectors.formats.csv_logs.proposals import explain_error
from detectors.scrub.files import add_log, find_logs, writing
from detectors.scrub.folders import Log
from detectors.scrub.scrubber import Scrubber, Summary
from detectors.wording.figures import counted

STANDARD: Final = Path("-")

_EXPECTED: Final = "`tallystick scrub --help` lists the logs and exports to use."


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
@click.option(
    "--at",
    metavar="TIME",
    default="",
    help="The time of calls without one, such as a batch's: 2026-11-28T12:00:00Z.",
)
@click.option(
    "--hash-short-prompts",
    is_flag=True,
    help="Hash prompts of under 1,024 characters, too, although they could be guessed.",
)
@mapping_options
def scrub(
    sources: tuple[Path, ...],
    destination: Path,
    at: str,
    hash_short_prompts: bool,
    mapped: tuple[str, ...],
    dropped: tuple[str, ...],
    provider: str,
) -> None:
    """Turn raw logs that contain text into one counts-only log.

    RAW are files or folders: requests and responses of the OpenAI and Anthropic APIs, sessions of
    coding agents, exports of gateways, logs and batch outputs of model providers; plain, gzipped,
    Zstandard or SQLite, in any mix. '-' is standard input. Nothing leaves this machine, and no text
    is written: of a prompt only a hash remains, to find equal prompts. With --map, --drop or
    --provider, RAW are CSV or JSON files of any other tool.
    """
    mapping = read_mapping(mapped, dropped, provider)
    if at and mapping:
        raise BadInputError("--at can't be combined with --map, --drop or --provider")
    moment = find_moment(at) if at else None
    if at and moment is None:
        raise BadInputError("--at must be a time such as 2026-11-28T12:00:00Z")
    scrubber = Scrubber(mapping, moment, hashes_short=hash_short_prompts)
    with _output(destination) as out:
        written = None if destination == STANDARD else destination.resolve()
        if any(source.resolve() == written for source in sources):
            raise BadInputError(f"{shown(destination)} cannot be both input and output")
        found = find_logs(sources, scrubber.summary)
        logs = [log for log in found if log.path.resolve() != written]
        if not logs:
            raise BadInputError(f"We found no logs: {_EXPECTED}{_not_read(scrubber.summary)}")
        for lines in _scrub_all(scrubber, logs):
            out.write(lines)
        out.writelines(scrubber.close())
        if not scrubber.summary.calls:
            raise BadInputError(f"We found no calls: {_EXPECTED}{_not_read(scrubber.summary)}")
    where = "standard output" if destination == STANDARD else shown(destination)
    summary = scrubber.summary
    calls, files = counted(summary.calls, "call"), counted(summary.files, "file")
    click.echo(
        f"Wrote {calls} from {files} to {where}: read {decimal(summary.bytes_read)} with text, "
        f"wrote {decimal(summary.bytes_written)} of counts; {summary.hashed:,} with a prompt hash."
        f"{_not_read(summary)}",
        err=destination == STANDARD,
    )


@contextmanager
def _output(destination: Path) -> Iterator[BinaryIO]:
    """Open the output, and turn errors of writing into a one-line error."""
    try:
        if destination == STANDARD:
            with standard_output():
                yield sys.stdout.buffer
        else:
            with writing(destination) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInputError(f"cannot write the output: {error.strerror or error}") from error


def _scrub_all(scrubber: Scrubber, logs: list[Log]) -> Iterator[bytes]:
    total, done = sum(_size_of(log.path) for log in logs), 0
    with long_progress("Scrubbing", total) as show:

        def advance(before: int, now: int) -> None:
            if show:
                show(before + now, total)

        for log in logs:
            try:
                if log.path == STANDARD:
                    yield from scrubber.add(sys.stdin.buffer)
                else:
                    yield from add_log(scrubber, log, partial(advance, done))
            except DetectorError as error:
                # How to map the file, if its names have to be.
                _, proposal = explain_error(error)
                mapping = f" We propose no mapping, because {proposal}." if proposal else ""
                if proposal.startswith("--"):
                    mapping = f" Add: {proposal}"
                raise BadInputError(f"{shown(log.path)}: {error}{mapping}") from error
            except OSError as error:
                reason = error.strerror or error
                raise BadInputError(f"cannot read {shown(log.path)}: {reason}") from error
            done += _size_of(log.path)


def _size_of(log: Path) -> int:
    return log.stat().st_size if log.is_file() else 0


def _not_read(summary: Summary) -> str:
    lines = [f"{count:>12,} {reason}" for reason, count in summary.reasons()]
    text = "".join(f"\n  {line}" for line in ["Dropped:", *lines]) if lines else ""
    skipped = [
        f"{count:>12,} {reason}: {shown(summary.examples[reason])}"
        for reason, count in summary.skipped.most_common()
    ]
    if skipped:
        text += "".join(f"\n  {line}" for line in ["Skipped, each with an example:", *skipped])
    if NO_TIME in summary.dropped:
        text += "\nTo read calls without a time, add when they were made: --at 2026-11-28T12:00:00Z"
    if NO_MODEL in summary.dropped:
        text += "\nTo read calls without a model name, add it: jq -c '. + {model: \"gpt-5.4\"}'"
    for options, path in summary.proposals.items():
        name = shown(path) if path else "-"
        text += (
            f"\nTo read {name}: tallystick scrub {name} --out usage.jsonl {options}"
            if options.startswith("--")
            else f"\nWe propose no mapping of {name}, because {options}."
        )
    return text
