"""A formula is also the steps of a calculation, which say all that it says."""

import re

from detectors.contract import Report
from detectors.wording.formula import Step, list_steps
from service.reports.sample import get_sample_report
from tests.cases import each_case

CACHE = (
    "3,630 tokens written again × (write rate − read rate: $17.25 per million) − 2,442 tokens "
    "written once × surcharge ($11.25 per million), over 276 calls that cost $159.55: $35.15 in "
    "14 days; × 2.143 to project to 30 days = $75.31/month."
)


@each_case(
    ("formula", "steps"),
    [
        (
            CACHE,
            [
                ("3,630 tokens written again × (write rate − read rate: $17.25 per million)", ""),
                ("− 2,442 tokens written once × surcharge ($11.25 per million)", ""),
                ("Over 276 calls that cost $159.55 in 14 days", "$35.15"),
                ("× 2.143 to project to 30 days", "$75.31/month"),
            ],
        ),
        (
            "Cost of 2 calls, minus their cost at the rates of qwen:7b: $5.00 − $1.00 = $4.00 in "
            "5 hours.",
            [
                (
                    "Cost of 2 calls, minus their cost at the rates of qwen:7b in 5 hours",
                    "$5.00 − $1.00 = $4.00",
                )
            ],
        ),
        ("Another detector's sentence.", [("Another detector's sentence.", "")]),
        ("", []),
    ],
)
def test_a_formula_has_a_step_for_each_line(formula: str, steps: list[tuple[str, str]]) -> None:
    assert [*list_steps(formula)] == [Step(*step) for step in steps]


def test_every_formula_of_ours_has_steps_with_all_of_its_numbers() -> None:
    report = Report.from_json(get_sample_report())
    formulas = [finding.formula for finding in report.findings if finding.formula]
    assert len({finding.detector for finding in report.findings if finding.formula}) >= 4
    for formula in formulas:
        steps = list_steps(formula)
        assert len(steps) >= 2, formula
        numbers = re.compile(r"[\d,.]*\d")
        shown = " ".join(f"{step.words} {step.amount}" for step in steps)
        assert sorted(numbers.findall(shown)) == sorted(numbers.findall(formula))
