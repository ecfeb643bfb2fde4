"""docs/security.md keeps to what exists: every requirement once, every file and test there."""

import re
from collections import Counter
from pathlib import Path

from tests.cases import each_case

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "security.md").read_text()
IDS = Path(__file__).with_name("asvs-5.0-level-2.txt").read_text().split()
STATUSES = {"pass", "by design", "operator", "not applicable", "open"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in DOC.splitlines()
    if re.match(r"\| \d+\.\d+\.\d+", line)
]


def test_every_requirement_is_there_once_with_a_status_and_a_reason() -> None:
    listed = [name for row in ROWS for name in row[0].split(", ")]
    assert len(IDS) == 253
    assert Counter(listed) == Counter(IDS)
    # Every requirement has a status and a reason.
    assert {row[1] for row in ROWS} <= STATUSES
    assert all(row[2] for row in ROWS)
    # What is met is shown by something.
    assert [row[0] for row in ROWS if row[1] != "not applicable" and not row[3]] == []


@each_case("doc", ["docs/security.md", "SECURITY.md"])
def test_every_file_and_test_that_it_names_exists(doc: str) -> None:
    text = (ROOT / doc).read_text()
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.\w+|[\w-]+\.(?:md|toml))(?:::(\w+))?`", text)
    named = [(path, test) for path, test in named if not path.startswith("security.txt")]
    assert doc == "SECURITY.md" or len(named) > 100
    for path, test in named:
        file = ROOT / path
        assert file.is_file(), path
        if test:
            assert re.search(rf"^def {test}\(", file.read_text(), re.MULTILINE), f"{path}::{test}"


@each_case("doc", ["docs/security.md", "SECURITY.md", "docs/operations.md", "docs/settings.md"])
def test_every_link_leads_to_a_heading_or_a_file(doc: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / doc).read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / doc).parent / path if path else ROOT / doc
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
            assert anchor in anchors, target
