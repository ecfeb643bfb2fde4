"""Every detector is registered, and the docs name it as its own file does."""

import re

from detectors.contract import Evidence
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector
from detectors.wording.names import introduce_detectors
from tests.cases import each_case
from tests.detectors.docs import ROOT, TABLES, missing_from_docs, table_row

INTRODUCED = introduce_detectors()


def test_every_rules_file_with_a_detector_is_in_the_tuple() -> None:
    assert list(INTRODUCED) == [detector.id for detector in DETECTORS]


@each_case("detector", DETECTORS)
def test_the_docs_describe_every_detector(detector: Detector) -> None:
    assert missing_from_docs(detector, INTRODUCED[detector.id]) == []


@each_case("table", TABLES)
def test_the_docs_list_no_other_detector(table: str) -> None:
    lines = (ROOT / table).read_text("utf-8").splitlines(keepends=True)
    rows = [line for line in lines if re.match(r"\| [^|]+ \| `d\d+_", line)]
    assert rows == [table_row(*introduced) for introduced in INTRODUCED.items()]


@each_case("detector", DETECTORS)
def test_every_column_of_evidence_is_a_field_of_a_call(detector: Detector) -> None:
    columns = [column.field for column in detector.evidence]
    assert [field for field in columns if not hasattr(Evidence, field)] == []
    assert len(set(columns)) == len(columns) > 0
