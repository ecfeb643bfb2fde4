"""The words of a CI gate: its sentence, its table, and the same as Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from detectors.contract import SEVERITIES, Change, Gate, Report, span_of
from detectors.contract.comparison import FIXED, GONE, NEW, UNCHANGED
from detectors.wording.comparison import STATUS_WORDS, describe_reports
from detectors.wording.figures import counted, percent, usd, whole_usd
from detectors.wording.impact import amount
from detectors.wording.labels import inert, shortened
from detectors.wording.names import SEVERITY_WORDS, detector_name

_MOST_ROWS: Final = 20
_LONGEST_LABEL: Final = 80
_NONE: Final = "–"


class Row(NamedTuple):
    status: str
    name: str
    route: str
    model: str
    severity: str
    before: str
    now: str


_AMOUNTS: Final = ("Savings before", "Savings now")
_HEADINGS: Final = Row("Status", "Finding", "Route", "Model", "Severity", *_AMOUNTS)


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

    def _row(self, change: Change) -> Row:
        finding = change.finding
        methods = (*self.report.methods, *(self.baseline.methods if self.baseline else ()))
        return Row(
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
