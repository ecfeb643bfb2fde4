"""The gate of CI: what was asked for, its words, its outcome, and its exit status."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import click
import msgspec
from rich.console import Console
from rich.text import Text

from detectors.cli.comparison import plain_table
from detectors.cli.console import BadInputError, shown, standard_output, write_output
from detectors.cli.terminal import PLAIN_WIDTH, report_console
from detectors.contract import SEVERITIES, Change, Gate, GateRule, Report, check_gate, span_of
from detectors.contract.comparison import FIXED, GONE, NEW, UNCHANGED
from detectors.wording.comparison import STATUS_WORDS, describe_reports
from detectors.wording.figures import counted, percent, usd, whole_usd
from detectors.wording.impact import amount
from detectors.wording.labels import inert, shortened
from detectors.wording.names import SEVERITY_WORDS, detector_name

_MOST_ROWS: Final = 20
_LONGEST_LABEL: Final = 80
_NONE: Final = "–"
_AMOUNTS: Final = ("Savings before", "Savings now")
# GitHub shows no more of one step.
_MOST_ANNOTATIONS: Final = 10
_ESCAPED: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_ESCAPED_IN_PROPERTY: Final = _ESCAPED | str.maketrans({":": "%3A", ",": "%2C"})
FAILED: Final = 1


class GateRow(NamedTuple):
    status: str
    name: str
    route: str
    model: str
    severity: str
    before: str
    now: str


_HEADINGS: Final = GateRow("Status", "Finding", "Route", "Model", "Severity", *_AMOUNTS)


class GateText(NamedTuple):
    gate: Gate
    report: Report
    baseline: Report | None
    baseline_name: str

    def sentence(self) -> str:
        count, rule = len(self.gate.failures), self.gate.rule
        severity = f"{rule.fail_on} severity"
        if rule.fail_on != SEVERITIES[-1]:
            severity += " or higher"
        since = ""
        if self.baseline is not None:
            verbs = "are new or have grown" if count > 1 else "is new or has grown"
            allowed = rule.allowed_growth_pct
            by = f" by more than {percent(allowed)}" if allowed else ""
            since = f" {verbs}{by} since {inert(self.baseline_name)}"
        if count:
            return f"Gate failed: {counted(count, 'finding')} of {severity}{since}."
        return f"Gate passed: no finding of {severity}{since}."

    def table(self, changes: Iterable[Change]) -> list[tuple[str, ...]]:
        """Return the rows of the changes below their headings; labels are inert."""
        rows = [_HEADINGS, *map(self._row, changes)]
        if self.baseline is not None:
            return list(rows)
        return [(row.name, row.route, row.model, row.severity, row.now) for row in rows]

    def _row(self, change: Change) -> GateRow:
        finding = change.finding
        methods = (*self.report.methods, *(self.baseline.methods if self.baseline else ()))
        return GateRow(
            status=STATUS_WORDS[change.status],
            name=detector_name(finding.detector, methods),
            route=inert(finding.route) or _NONE,
            model=inert(finding.model) or _NONE,
            severity=SEVERITY_WORDS.get(finding.severity, inert(finding.severity)),
            before=_NONE if change.status == NEW else whole_usd(change.before_usd),
            now=_NONE if change.status in (FIXED, GONE) else amount(finding),
        )

    def messages(self) -> list[tuple[str, str]]:
        found = []
        for row in map(self._row, self.gate.failures):
            grown = f", {row.before} before" if row.before != _NONE else ""
            status = f"{row.status}: " if self.baseline is not None else ""
            now = "no savings claimed" if row.now == _NONE else row.now
            found.append((row.name, f"{status}{row.route}, {row.model}: {now}{grown}"))
        return found

    def notes(self) -> Iterator[str]:
        """Say what makes the report differ from its baseline that is not traffic."""
        return iter(()) if self.baseline is None else describe_reports(self.baseline, self.report)

    def markdown(self) -> str:
        parts = ["## Tallystick\n", f"**{_plain(self.sentence())}**\n"]
        if self.baseline is not None:
            before, now = (span_of(each).spend_usd for each in (self.baseline, self.report))
            parts.append(f"Spend: {usd(before)} before, {usd(now)} now.\n")
        if self.gate.failures:
            parts.append(self._table(self.gate.failures))
        others = [change for change in self.gate.others if change.status != UNCHANGED]
        if others:
            parts += ["### Other changes\n", self._table(others)]
        parts += [f"{_plain(note)}\n" for note in self.notes()]
        return "\n".join(parts) + "\n"

    def _table(self, changes: Sequence[Change]) -> str:
        headings, *rows = self.table(changes[:_MOST_ROWS])
        is_label = [heading in ("Route", "Model") for heading in headings]
        lines = [_line(headings), _line("---:" if each in _AMOUNTS else "---" for each in headings)]
        for row in rows:
            pairs = zip(row, is_label, strict=True)
            lines.append(_line([_code(cell) if code else _plain(cell) for cell, code in pairs]))
        hidden = len(changes) - _MOST_ROWS
        more = f"\n{counted(hidden, 'more finding')}.\n" if hidden > 0 else ""
        return "\n".join(lines) + f"\n{more}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Write a text of ours with labels in it so that none of it is markup, a link or a mention."""
    return re.sub(r"[^\w\s.,;:%$()–-]|_|\.(?=[^\W\d])", _entity, text)


def _code(label: str) -> str:
    """Write a label as code; GitHub makes no link or mention of that."""
    text = re.sub(r"[^\w\s-]|_", _entity, shortened(label, _LONGEST_LABEL))
    return f"<code>{text}</code>"


def _entity(character: re.Match[str]) -> str:
    return f"&#{ord(character[0])};"


class GateRequest(NamedTuple):
    """The gate that was asked for, with its baseline read."""

    rule: GateRule
    baseline: Report | None
    baseline_name: str
    json: str | None
    markdown: Path | None

    @classmethod
    def read(cls, options: dict[str, Any], read_baseline: Callable[[Path], Report]) -> Self:
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

    def check(self, report: Report) -> "Outcome":
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
