"""The options of the gate."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from detectors.cli.console import with_options
from detectors.contract import SEVERITIES

if TYPE_CHECKING:
    from detectors import Report
    from detectors.cli.gate.request import GateRequest

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
    from detectors.cli.gate.request import GateRequest

    return GateRequest.read(options, read_baseline)
