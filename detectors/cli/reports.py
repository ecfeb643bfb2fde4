"""Reports of files: of a log, which is audited, or of a document that an audit wrote."""

import os
import sys
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

import detectors
from detectors.cli.console import LONG_FILE_BYTES, BadInputError, long_progress, shown
from detectors.cli.imports import imported_meanwhile
from detectors.cli.price_file import find_update, read_prices
from detectors.errors import ContractError, DetectorError

if TYPE_CHECKING:
    from detectors import ColumnMapping, Report

STANDARD_INPUT: Final = Path("-")
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
    os.environ.setdefault("_RJEM_MALLOC_CONF", detectors.MEMORY)
    book = read_prices(prices) if prices else find_update()
    try:
        is_input = file == STANDARD_INPUT
        if file.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        size = 0 if is_input else file.stat().st_size
        from detectors.frames import place  # the dataframe library loads slowly

        source = sys.stdin.buffer if is_input else file
        # Import what audits and prints while a long log is read: a short one is read too soon.
        meanwhile = () if size < LONG_FILE_BYTES else ("detectors.report", "detectors.cli.terminal")
        with long_progress("Auditing", size) as progress, imported_meanwhile(*meanwhile):
            read = [place(source, mapping=mapping, progress=progress)]
        # Popped, so that nothing here keeps the calls: the audit frees them when it can.
        return detectors.audit(read.pop(), prices=book)
    except DetectorError as error:
        raise BadInputError(" ".join([str(error), *_advise(error, file, mapping)])) from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror or error}") from error


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
