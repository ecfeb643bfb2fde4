"""`tallystick compare BEFORE AFTER`."""

from pathlib import Path

import click

from detectors.cli.comparison import ChangedFinding, Printed, print_comparison
from detectors.cli.console import rare_collections, standard_output
from detectors.cli.reports import read_report
from detectors.cli.terminal import report_console
from detectors.contract import list_priced_changes
from detectors.wording.comparison import describe_lengths, describe_reports
from detectors.wording.names import detector_name

_path = click.Path(path_type=Path)


@click.command()
@click.argument("before", type=_path)
@click.argument("after", type=_path)
@click.option(
    "--prices",
    metavar="RATES",
    type=_path,
    help="A TOML file with your discounts, negotiated rates and aliases, for logs.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many routes, models and findings to print.",
)
@rare_collections()
def compare(before: Path, after: Path, prices: Path | None, top: int) -> None:
    """Compare the spend and the findings of two reports or usage logs.

    BEFORE and AFTER are reports that `tallystick audit --json` wrote, or usage logs, which are
    audited first. Spend is compared by route and model, and per day if they cover different
    numbers of days.
    """
    earlier, later = read_report(before, prices), read_report(after, prices)
    comparison = later.compare(earlier)
    methods = (*later.methods, *earlier.methods)
    printed = Printed(
        spans=comparison.spans,
        routes=comparison.routes,
        models=comparison.models,
        findings=[
            ChangedFinding(
                status=change.status,
                name=detector_name(change.finding.detector, methods),
                route=change.finding.route,
                model=change.finding.model,
                before_usd=change.before_usd,
                after_usd=change.after_usd,
            )
            for change in list_priced_changes(later, earlier)
        ],
        notes=(
            "Savings are those of the reports: per month where they can be projected.",
            *describe_lengths(*comparison.spans),
            *describe_reports(earlier, later),
        ),
    )
    with standard_output():
        print_comparison(printed, report_console(), top)
