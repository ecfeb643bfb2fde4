"""`tallystick audit FILE`."""

import sys
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import detectors
from detectors.cli.console import BadInputError, long_progress, shown, standard_output
from detectors.cli.mapping import mapping_options, propose_options, read_mapping
from detectors.cli.price_file import find_update, read_prices
from detectors.cli.terminal import print_report, report_console
from detectors.errors import ContractError, DetectorError
from detectors.html.page import print_page
from detectors.wording.findings_csv import print_findings

if TYPE_CHECKING:
    from detectors import ColumnMapping, Report

STANDARD_INPUT = Path("-")
SCRUB_HINT = "For example: tallystick scrub {file} --out usage.jsonl"

_path = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=_path)
@click.option("--json", metavar="OUT", help="Write the report as JSON; '-' prints only that.")
@click.option("--html", metavar="OUT", type=_path, help="Write the report as one HTML page.")
@click.option("--csv", metavar="OUT", type=_path, help="Write the findings as CSV.")
@click.option(
    "--calls",
    metavar="DIR",
    type=_path,
    help="Write every call behind each finding as CSV, a file per finding.",
)
@click.option(
    "--prices",
    metavar="RATES",
    type=_path,
    help="A TOML file with your discounts, negotiated rates and aliases (see above).",
)
@mapping_options
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many findings to print.",
)
def audit(file: Path, top: int, prices: Path | None, **outputs: Any) -> None:
    """Audit a usage log and print its avoidable spend, most expensive first.

    FILE is a log in a supported format, JSON Lines or CSV, plain or gzipped; '-' is standard
    input.

    RATES contains discounts as shares, overrides in US dollars per million tokens, and aliases
    that price your own model names:

    \b
      [discounts]
      openai = 0.12
      [overrides.openai."gpt-5.5"]
      input_mtok = 4
      output_mtok = 24
      [aliases.azure]
      "prod-chat-*" = { provider = "azure", model = "gpt-5.4" }
    """
    columns = [outputs.pop(name) for name in ("mapped", "dropped", "provider")]
    report = audit_file(file, prices, read_mapping(*columns))
    if outputs["json"] not in (None, "-"):
        _write(Path(outputs["json"]), report.to_json() + b"\n")
    if outputs["html"]:
        _write(outputs["html"], print_page(report).encode())
    if outputs["csv"]:
        _write(outputs["csv"], print_findings(report).encode())
    if outputs["calls"]:
        _write_calls(report, outputs["calls"])
    with standard_output():
        if outputs["json"] == "-":
            click.echo(report.to_json())
        else:
            print_report(report, report_console(), top)


def audit_file(file: Path, prices: Path | None, mapping: "ColumnMapping | None" = None) -> "Report":
    """Audit a usage log, with the terms of a price file and a mapping of columns if given."""
    book = read_prices(prices) if prices else find_update()
    terms: dict[str, Any] = {"prices": book} if book else {}
    named: dict[str, Any] = {"mapping": mapping} if mapping else {}
    try:
        if file == STANDARD_INPUT:
            return detectors.audit(detectors.read(sys.stdin.buffer, **named), **terms)
        if file.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        with long_progress("Auditing", file.stat().st_size) as progress:
            return detectors.audit(detectors.read(file, progress=progress, **named), **terms)
    except DetectorError as error:
        raise BadInputError(" ".join([str(error), *_advise(error, file, mapping)])) from error
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror or error}") from error


def _advise(error: DetectorError, file: Path, mapping: "ColumnMapping | None") -> list[str]:
    """Return what makes the file readable, if a command does."""
    if error.columns:
        options = propose_options(error.columns)
        return [] if mapping else [f"To read other columns, map or drop each of them: {options}"]
    return [SCRUB_HINT.format(file=shown(file))] if isinstance(error, ContractError) else []


def _write_calls(report: "Report", folder: Path) -> None:
    """Write `<finding>.csv` for each finding; the savings of a file add up to its finding's."""
    from detectors.report.result.calls import write_calls  # the dataframe library loads slowly

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"cannot create {shown(folder)}: {error.strerror}") from error
    ids = [finding.id for finding in report.findings]
    for finding_id, calls in zip(ids, report.collect_calls(ids), strict=True):
        _write(folder / f"{finding_id}.csv", write_calls(calls).encode())


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise BadInputError(f"cannot write {shown(file)}: {error.strerror}") from error
