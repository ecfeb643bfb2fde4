"""Display names of detectors, severities and confidences."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from detectors.contract import Method
from detectors.wording.labels import inert

SEVERITY_WORDS: Final[Mapping[str, str]] = {"high": "High", "medium": "Medium", "low": "Low"}
CONFIDENCE_WORDS: Final[Mapping[str, str]] = {
    "VERIFIED": "calculated from billed token counts",
    "ESTIMATED": "based on the assumption stated in the fix",
    "CONDITIONAL": "if the cheaper model passes your own evaluation",
    "INFORMATIONAL": "no savings claimed",
}
NO_ROUTE: Final = "No tag or endpoint"
CONFIDENCE_NAMES: Final[Mapping[str, str]] = {name: name.capitalize() for name in CONFIDENCE_WORDS}
# What totals of a provider's reports prove, with no call sent: no detector reads them.
PROVIDER_TOTALS: Final = "provider_totals"
_RULES: Final = Path(__file__).parents[1] / "rules"
# A pattern and no parser, which takes a fiftieth of an audit of few calls.
_DETECTOR: Final = re.compile(
    r'\A"""(.*?)""".*^DETECTOR = \w+\(\s*id="(\w+)"', re.DOTALL | re.MULTILINE
)


class Introduction(NamedTuple):
    """The name of a detector, and what it finds in one sentence."""

    name: str
    summary: str


@cache
def introduce_detectors() -> Mapping[str, Introduction]:
    """Return the introduction of every detector by id, from the files in `detectors/rules`.

    The files are read, not imported: importing them loads a dataframe library.
    """
    found = (_DETECTOR.match(file.read_text("utf-8")) for file in _RULES.glob("*.py"))
    introduced = {each[2]: read_introduction(each[1]) for each in found if each}
    # By number: `d10` is after `d2`.
    by_number = sorted(introduced, key=lambda each: (len(each.partition("_")[0]), each))
    return {each: introduced[each] for each in by_number}


def read_introduction(definition: str) -> Introduction:
    name, summary, *_ = (*definition.split("\n\n"), "", "")
    return Introduction(name.strip().removesuffix("."), " ".join(summary.split()))


def detector_name(detector: str, methods: Iterable[Method] = ()) -> str:
    """Return the display name of a detector.

    A detector that is not installed here has the name that its report gives, or else its id. It is
    inert, because anyone can write a report.
    """
    if detector == PROVIDER_TOTALS:
        return "Provider reports"
    known = introduce_detectors().get(detector)
    titles = {method.detector: method.title for method in methods}
    return known.name if known else inert(titles.get(detector, detector))
