"""`tallystick audit FILE`.

What writes the report is imported where it is used: it loads while the log is read and audited.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from detectors.cli.console import (
    BadInputError,
    rare_collections,
    shown,
    standard_output,
    with_options,
    write_output,
)
from detectors.cli.mapping import mapping_options, read_mapping
from detectors.cli.reports import audit_files, describe_scrubbed, read_report
from detectors.contract import SEVERITIES

if TYPE_CHECKING:
    from detectors import Report
    from detectors.cli.gate import GateRequest


_path = click.Path(path_type=Path)
gate_options: Final = with_options(
    click.option(
        "--fail-on",
        type=click.Choice(SEVERITIES),
        help="Exit with status 1 if a finding is at least this severe.",
    ),
    click.option(
        "--baseline",
        metavar="REPORT",
        type=_path,
        help="A report that --json wrote, or a log: with --fail-on, only findings that are new or "
        "have grown since then fail.",
    ),
    click.option(
        "--allow-growth",
        metavar="PERCENT",
        type=click.FloatRange(min=0, max=1_000_000),
        help="How much a finding of the baseline may grow.  [default: 0]",
    ),
    click.option(
        "--gate-json",
        metavar="OUT",
        help="Write what --fail-on found as JSON; '-' prints only that.",
    ),
    click.option(
        "--gate-markdown",
        metavar="OUT",
        type=_path,
        help="Write what --fail-on found as Markdown, for a comment.",
    ),
)


def read_gate(
    options: dict[str, Any], read_baseline: "Callable[[Path], Report]"
) -> "GateRequest | None":
    """Return the gate of the command line; None without `--fail-on`."""
    if options["fail_on"] is None:
        for name in ("baseline", "allow_growth", "gate_json", "gate_markdown"):
            if options[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --fail-on.")
        return None
    # Imported here because most audits have no gate.
    from detectors.cli.gate import GateRequest

    return GateRequest.read(options, read_baseline)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_path)
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
@gate_options
@rare_collections()
def audit(files: tuple[Path, ...], top: int, prices: Path | None, **options: Any) -> None:
    """Audit a usage log: its avoidable spend, most expensive first.

    FILE is a log in a supported format, JSON Lines or CSV, plain or gzipped, or Parquet; '-' is
    standard input. A folder, several files or folders, and a pattern such as 'logs/*.jsonl' are one
    log: they may contain text, as coding agents' sessions do, and are scrubbed in memory. Parquet
    files need the columns of a usage record, and can't be mixed with other logs.

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

    The exit status is 0, or 1 if --fail-on is given and fails, or 2 if a file or an option can't be
    used.
    """
    columns = read_mapping(*(options.pop(name) for name in ("mapped", "dropped", "provider")))
    request = read_gate(options, lambda earlier: read_report(earlier, prices, columns))
    report, scrubbed = audit_files(files, prices, columns)
    if options["json"] not in (None, "-"):
        write_output(Path(options["json"]), report.to_json() + b"\n")
    if options["html"]:
        from detectors.html.page import print_page

        write_output(options["html"], print_page(report).encode())
    if options["csv"]:
        from detectors.wording.findings_csv import print_findings

        write_output(options["csv"], print_findings(report).encode())
    if options["calls"]:  # the savings of each finding's file add up to its own
        from detectors.report.result.calls import write_calls  # the dataframe library loads slowly

        folder, ids = options["calls"], [finding.id for finding in report.findings]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(f"cannot create {shown(folder)}: {error.strerror}") from error
        for finding_id, calls in zip(ids, report.collect_calls(ids), strict=True):
            write_output(folder / f"{finding_id}.csv", write_calls(calls).encode())
    outcome = request.check(report) if request else None
    with standard_output(may_close=outcome is not None):
        if scrubbed:
            is_data = options["json"] == "-" or options["gate_json"] == "-"
            click.echo(describe_scrubbed(scrubbed), err=is_data)
        if options["json"] == "-":
            click.echo(report.to_json())
        elif options["gate_json"] != "-":
            from detectors.cli.terminal import print_report, report_console

            print_report(report, report_console(), top)
    if outcome is not None:
        outcome.finish(is_data_only="-" in (options["json"], options["gate_json"]))
