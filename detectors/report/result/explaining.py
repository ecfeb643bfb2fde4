"""Explains a finding: its detector's rule and formula, with the finding's own numbers."""

from dataclasses import dataclass, field
from difflib import get_close_matches

from detectors.contract import Finding, Method, Report
from detectors.html.findings import finding_body
from detectors.html.markup import cell, paragraph, table, text
from detectors.wording.figures import counted, usd
from detectors.wording.impact import impact_alone, impact_range
from detectors.wording.labels import inert
from detectors.wording.names import CONFIDENCE_WORDS, detector_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The rule behind a finding, and how we calculated its dollars.

    Attributes
    ----------
    finding : Finding
        The explained finding.
    rule : str
        What the detector fires on, a summary of its page in `docs/detectors`.
    formula : str
        The detector's formula with this finding's numbers, or a note if no savings are claimed.
    most_expensive : str
        The most expensive call and what the fix would change, empty without evidence.
    thresholds : dict of str to float or tuple of int
        The numbers that the detector used, by the names of `Thresholds`.
    """

    finding: Finding
    rule: str
    formula: str
    most_expensive: str
    thresholds: dict[str, float | tuple[int, ...]]
    _methods: tuple[Method, ...] = field(repr=False)

    def __str__(self) -> str:
        finding = self.finding
        name = detector_name(finding.detector, self._methods)
        where = (
            finding.route
            if finding.route == finding.model
            else (f"{finding.route}, {finding.model}")
        )
        lines = [
            f"{finding.id}  {name} ({finding.detector}): {impact_alone(finding)}",
            f"{inert(where)} ({finding.provider}), {counted(finding.calls, 'call')}",
            "",
            f"Rule: {self.rule}",
            f"How we calculated this: {inert(self.formula)}",
            *([f"Most expensive call: {self.most_expensive}"] if self.most_expensive else []),
            f"Confidence: {finding.confidence.lower()} "
            f"({CONFIDENCE_WORDS.get(finding.confidence, 'unknown')})",
            *([f"Range: {impact_range(finding)}"] if impact_range(finding) else []),
            f"Fix: {inert(finding.fix)}",
            "Thresholds: " + ", ".join(f"{n} = {_written(v)}" for n, v in self.thresholds.items()),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        thresholds = table(
            ("Threshold", "Value"),
            ((text(name), _written(value)) for name, value in self.thresholds.items()),
            numbers=[1],
        )
        body = finding_body(self.finding, self._methods) + paragraph(f"Rule: {self.rule}")
        if not self.finding.formula:
            body += paragraph(self.formula)
        if self.most_expensive:
            body += paragraph(f"Most expensive call: {self.most_expensive}")
        return cell(f"{body}<details><summary>Thresholds</summary>{thresholds}</details>")


def explain(report: Report, finding_id: str) -> Explanation:
    finding = find(report, finding_id)
    rules = {method.detector: method.fires_on for method in report.methods}
    prefix = f"{finding.detector.partition('_')[0]}_"
    names = [name for name in report.thresholds.__struct_fields__ if name.startswith(prefix)]
    most_expensive = ""
    for call in finding.evidence[:1]:
        counts = {
            "prompt": call.prompt_tokens,
            "completion": call.completion_tokens,
            "cached": call.cached_tokens,
            "cache-write": call.cache_write_tokens,
        }
        tokens = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count) or "no"
        savings = f"of which {usd(call.saving_usd)} is avoidable"
        if call.saving_usd < 0:
            savings = f"which the fix would raise by {usd(-call.saving_usd)}"
        most_expensive = f"{call.ts}, {tokens} tokens, cost {usd(call.cost_usd)}, {savings}"
    return Explanation(
        finding=finding,
        rule=rules.get(finding.detector, ""),
        formula=finding.formula or "No savings are claimed for findings of this kind.",
        most_expensive=most_expensive,
        thresholds={name: getattr(report.thresholds, name) for name in [*names, "days_per_month"]},
        _methods=report.methods,
    )


def find(report: Report, finding_id: str) -> Finding:
    findings = {finding.id: finding for finding in report.findings}
    if finding_id in findings:
        return findings[finding_id]
    near = get_close_matches(str(finding_id), findings, n=3, cutoff=0.3)
    similar = f"; similar IDs: {', '.join(near)}" if near else ""
    raise KeyError(f"the report has no finding with this ID{similar}")


def _written(threshold: float | tuple[int, ...]) -> str:
    if isinstance(threshold, tuple):
        return " ".join(map(str, threshold))
    return f"{threshold:g}"
