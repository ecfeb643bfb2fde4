"""The docs name files and folders that exist."""

import re
from pathlib import Path

from tests.cases import each_case

ROOT = Path(__file__).parents[2]
DOCS = ("CONTRIBUTING.md", "docs/architecture.md")
TOP = "service|detectors|client|templates|migrations|tests|docs|deploy|benchmarks|examples"
PATHS = re.compile(rf"`((?:{TOP})/[\w./-]*)`")


@each_case("doc", DOCS)
def test_every_path_in_the_doc_exists(doc: str) -> None:
    paths = PATHS.findall((ROOT / doc).read_text())
    assert len(paths) > 3
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing, f"{doc} names {missing}"
