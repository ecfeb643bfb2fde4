"""A gate that was asked for, its outcome, and its exit status."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click
import msgspec
from rich.console import Console
from rich.text import Text

from detectors.cli.comparison import plain_table
from detectors.cli.console import BadInputError, shown, standard_output, write_output
from detectors.cli.gate.text import GateText
from detectors.cli.terminal import PLAIN_WIDTH, report_console
from detectors.contract import GateRule, check_gate

if TYPE_CHECKING:
    from detectors import Report


# GitHub shows no more of one step.
_MOST_ANNOTATIONS: Final = 10
_ESCAPED: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_ESCAPED_IN_PROPERTY: Final = _ESCAPED | str.maketrans({":": "%3A", ",": "%2C"})


FAILED: Final = 1


class GateRequest(NamedTuple):
    """The gate that was asked for, with its baseline read."""

    rule: GateRule
    baseline: "Report | None"
    baseline_name: str
    json: str | None
    markdown: Path | None

    @classmethod
    def read(cls, options: dict[str, Any], read_baseline: "Callable[[Path], Report]") -> Self:
        if options["json"] == options["gate_json"] == "-":
            raise click.UsageError("Only one of --json and --gate-json can be '-'.")
        file = options["baseline"]
        return cls(
            rule=GateRule(
                fail_on=options["fail_on"], allowed_growth_pct=options["allow_growth"] or 0.0
            ),
            baseline=read_baseline(file) if file else None,
            baseline_name=shown(Path(file.name)) if file else "",
            json=options["gate_json"],
            markdown=options["gate_markdown"],
        )

    def check(self, report: "Report") -> "Outcome":
        gate = check_gate(report, self.baseline, self.rule)
        text = GateText(gate, report, self.baseline, self.baseline_name)
        failed = {
            "passed": not gate.failures,
            "fail_on": gate.rule.fail_on,
            "allowed_growth_pct": gate.rule.allowed_growth_pct,
            "baseline": self.baseline_name or None,
            "failures": [
                {
                    "status": change.status if self.baseline_name else None,
                    "id": change.finding.id,
                    "detector": change.finding.detector,
                    "kind": change.finding.kind,
                    "route": change.finding.route,
                    "provider": change.finding.provider,
                    "model": change.finding.model,
                    "severity": change.finding.severity,
                    "confidence": change.finding.confidence,
                    "before_usd": change.before_usd if self.baseline_name else None,
                    "after_usd": change.after_usd,
                }
                for change in gate.failures
            ],
        }
        document = msgspec.json.Encoder(decimal_format="number").encode(failed) + b"\n"
        if self.json not in (None, "-"):
            write_output(Path(self.json or ""), document)
        if self.markdown:
            write_output(self.markdown, text.markdown().encode())
        return Outcome(text, document if self.json == "-" else b"")


class Outcome(NamedTuple):
    """A checked gate, and the document to print, if only that is printed."""

    text: GateText
    document: bytes

    def finish(self, *, is_data_only: bool) -> None:
        """Print the outcome, for GitHub too if it asks, and exit with the gate's status.

        Standard output has only data if it has any.
        """
        with standard_output(may_close=True):
            if self.document:
                click.echo(self.document, nl=False)
            console = Console(stderr=True, width=PLAIN_WIDTH) if is_data_only else report_console()
            failures = self.text.gate.failures
            console.print()
            console.print(Text(self.text.sentence(), style="bold red" if failures else "bold"))
            if failures:
                headings, *rows = self.text.table(failures)
                labels = headings.index("Severity") + 1
                table = plain_table(headings[:labels], headings[labels:])
                for row in rows:
                    table.add_row(*map(Text, row))
                console.print(table)
            for note in self.text.notes():
                console.print(Text(note, style="dim"))
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for name, message in self.text.messages()[:_MOST_ANNOTATIONS]:
                title = name.translate(_ESCAPED_IN_PROPERTY)
                click.echo(f"::error title={title}::{message.translate(_ESCAPED)}", err=True)
        if os.environ.get("GITHUB_STEP_SUMMARY"):
            file = Path(os.environ["GITHUB_STEP_SUMMARY"])
            try:
                with file.open("a", encoding="utf-8") as summary:
                    summary.write(self.text.markdown())
            except OSError as error:
                raise BadInputError(f"cannot write {shown(file)}: {error.strerror}") from error
        if self.text.gate.failures:
            click.get_current_context().exit(FAILED)
