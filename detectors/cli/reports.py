"""Reports of files: of a log, which is audited, or of a document that an audit wrote."""

import os
import sys
from collections.abc import Sequence
from errno import EISDIR, ENOENT
from glob import glob, has_magic
from io import BytesIO
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

import detectors
from detectors.cli.console import LONG_FILE_BYTES, BadInputError, long_progress, shown
from detectors.cli.imports import imported_meanwhile
from detectors.cli.price_file import find_update, read_prices
from detectors.errors import ContractError, DetectorError
from detectors.wording.figures import counted

if TYPE_CHECKING:
    from detectors import ColumnMapping, Report
    from detectors.scrub.scrubber import Summary

STANDARD_INPUT: Final = Path("-")
# Freed memory stays for a second: ten, as elsewhere and for Parquet, which has many calls per byte,
# take 30 MB more for 1,000,000 lines.
_MEMORY: Final = "narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0"
_USED_LATER: Final = ("detectors.report", "detectors.cli.terminal")
SCRUB_HINT: Final = "For example: tallystick scrub {file} --out usage.jsonl"


def read_report(
    file: Path, prices: Path | None, mapping: "ColumnMapping | None" = None
) -> "Report":
    if file.suffix == ".json":
        try:
            return detectors.Report.from_json(file.read_bytes())
        except msgspec.MsgspecError:
            pass  # a log may be one JSON array
        except OSError as error:
            raise BadInputError(f"cannot read {shown(file)}: {error.strerror or error}") from error
    return audit_file(file, prices, mapping)


def audit_file(file: Path, prices: Path | None, mapping: "ColumnMapping | None" = None) -> "Report":
    is_parquet = file.suffix == ".parquet"
    os.environ.setdefault("_RJEM_MALLOC_CONF", detectors.MEMORY if is_parquet else _MEMORY)
    book = read_prices(prices) if prices else None
    try:
        is_input = file == STANDARD_INPUT
        if file.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        size = 0 if is_input else file.stat().st_size
        from detectors.frames import place  # the dataframe library loads slowly

        source = sys.stdin.buffer if is_input else file
        # Import what audits and prints while a long log is read: a short one is read too soon.
        meanwhile = () if size < LONG_FILE_BYTES else _USED_LATER
        with long_progress("Auditing", size) as progress, imported_meanwhile(*meanwhile):
            read = [place(source, mapping=mapping, progress=progress)]
        # Popped, so that nothing here keeps the calls: the audit frees them when it can. Prices of
        # an update take time to import, too.
        return detectors.audit(read.pop(), prices=book or find_update())
    except DetectorError as error:
        raise BadInputError(" ".join([str(error), *_advise(error, file, mapping)])) from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror or error}") from error


def audit_files(
    files: Sequence[Path], prices: Path | None, mapping: "ColumnMapping | None" = None
) -> "tuple[Report, Summary | None]":
    """Audit one file, or scrub folders and several files in memory and audit what remains."""
    if len(files) == 1 and not files[0].is_dir() and not _is_pattern(files[0]):
        return audit_file(files[0], prices, mapping), None
    from detectors.scrub.files import add_log, find_logs
    from detectors.scrub.scrubber import Scrubber

    paths = list[Path]()
    for file in files:
        named = [file]
        if _is_pattern(file):
            named = [Path(name) for name in sorted(glob(str(file), recursive=True))]
        if not named:
            none = f"{strerror(ENOENT)}, and as a pattern it matches none"
            raise BadInputError(f"cannot read {shown(file)}: {none}")
        paths += named
    for path in paths:
        if not path.exists():
            raise BadInputError(f"cannot read {shown(path)}: {os.strerror(ENOENT)}")
    if mapping is None and all(path.suffix == ".parquet" for path in paths):
        return _audit_tables(paths, prices), None
    os.environ.setdefault("_RJEM_MALLOC_CONF", _MEMORY)
    scrubber, counts = Scrubber(mapping), BytesIO()
    for log in find_logs(paths, scrubber.summary):
        try:
            counts.writelines(add_log(scrubber, log))
        except DetectorError as error:
            raise BadInputError(f"{shown(log.path)}: {error}") from error
        except OSError as error:
            reason = error.strerror or error
            raise BadInputError(f"cannot read {shown(log.path)}: {reason}") from error
    counts.writelines(scrubber.close())
    if not scrubber.summary.calls:
        raise BadInputError(f"We found no calls. {describe_scrubbed(scrubber.summary)}")
    counts.seek(0)
    book = read_prices(prices) if prices else find_update()
    return detectors.audit(counts, prices=book), scrubber.summary


def _audit_tables(files: Sequence[Path], prices: Path | None) -> "Report":
    """Audit Parquet files as one log: their columns must be those of a usage record."""
    os.environ.setdefault("_RJEM_MALLOC_CONF", detectors.MEMORY)
    from detectors.frames import place
    from detectors.frames.inputs import scan_files

    book = read_prices(prices) if prices else None
    files = list(dict.fromkeys(file.resolve() for file in files))  # each once
    try:
        with imported_meanwhile(*_USED_LATER):
            read = [place(scan_files([str(file) for file in files]))]
        return detectors.audit(read.pop(), prices=book or find_update())
    except DetectorError as error:
        others = f" and {counted(len(files) - 1, 'other file')}" if len(files) > 1 else ""
        raise BadInputError(f"{shown(files[0])}{others}: {error}") from error


def describe_scrubbed(summary: "Summary") -> str:
    """Say what was read, that text stayed in memory, and what was skipped, each with an example."""
    from detectors.formats.adapters import adapters  # loaded by then

    files, calls = counted(summary.files, "file"), counted(summary.calls, "call")
    said = f"Scrubbed {files} in memory and found {calls}. No text was kept."
    lines = [f"{count:>12,} {reason}" for reason, count in summary.reasons()]
    lines += [
        f"{count:>12,} skipped, {reason}: {shown(summary.examples[reason])}"
        for reason, count in summary.skipped.most_common()
    ]
    agents = {each.title for name, each in adapters().items() if name.startswith("agents.")}
    if agents & summary.titles:
        lines.append(
            "For what only sessions show, such as cold restarts, run `tallystick agents findings`."
        )
    return "\n".join([said, *lines])


def _is_pattern(file: Path) -> bool:
    return has_magic(str(file)) and not file.exists()


def _advise(error: DetectorError, file: Path, mapping: "ColumnMapping | None") -> list[str]:
    """Return what makes the file readable, if a command does."""
    from detectors.formats.csv_logs.proposals import explain_error  # only for an error

    source, proposal = ("", "") if mapping else explain_error(error)
    unread = [f"We don't read {source}."] if source else []
    if proposal and not proposal.startswith("--"):
        return [*unread, f"We propose no mapping, because {proposal}."]
    if proposal and error.columns:
        return [*unread, f"To read other columns, map or drop each of them: {proposal}"]
    if proposal:
        return [*unread, f"{SCRUB_HINT.format(file=shown(file))} {proposal}"]
    if isinstance(error, ContractError) and not error.columns:
        return [*unread, SCRUB_HINT.format(file=shown(file))]
    return unread
