"""A formula is also the steps of a calculation, which say all that it says."""

import re

from detectors.contract import Report
from detectors.wording.formula import Step, list_steps
from service.reports.sample import get_sample_report
from tests.cases import data_of, each_case


@each_case(("formula", "steps"), data_of(__file__)["steps"])
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
