"""docs/sources.md says of every adapter what its own documentation and expected records say."""

import re
from pathlib import Path
from typing import Final

from detectors.formats.adapters import adapters
from examples.make_source_guide import BEGIN, GUIDE, make_source_guide
from tests.cases import each_case

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = GUIDE.read_text()


def test_the_guide_has_every_adapter_with_its_commands() -> None:
    assert make_source_guide(TEXT) == TEXT, "run `make sources`"
    # Every adapter has one row and one section.
    titles = sorted(adapter.title for adapter in adapters().values())
    assert sorted(re.findall(r"^\| \[([^\]]+)\]\(#", TEXT, re.M)) == titles
    assert sorted(re.findall(r"^## (.+)", TEXT.partition(BEGIN)[2], re.M)) == titles
    # Every source says what makes two rows one call and what it was checked against.
    _, _, table = TEXT.partition("| source | two rows are one call if they have |")
    rows = [row.strip("| ").split(" | ") for row in table.partition("\n\n")[0].splitlines()[2:]]
    assert {adapter.title for adapter in adapters().values()} <= {row[0] for row in rows}
    for source, same, checked in rows:
        assert same, source
        assert re.search(r"[A-Z][a-z]{2} [0-9]+, 20[0-9]{2}: [0-9]+ ", checked), source


def test_every_row_has_a_command_and_says_what_is_lacking() -> None:
    rows = [row for row in TEXT.splitlines() if row.startswith("| [")]
    for row in rows:
        _, how, lacks, costs = row.strip("| ").split(" | ")
        assert how.startswith(("`tallystick ", "`aws "))
        assert (lacks == "nothing") == (costs == "none")


@each_case(
    "way",
    ["client/README.md", "api/ingest.md", "api/otlp.md", "api/upload.md", "--map", "scrub.md"],
)
def test_the_ways_without_an_adapter_have_a_row_too(way: str) -> None:
    head, _, _ = TEXT.partition("<!--")
    assert way in head


@each_case("page", ["README.md", "docs/scrub.md", "docs/architecture.md"])
def test_other_pages_link_to_the_guide(page: str) -> None:
    assert re.search(r"\]\((docs/)?sources\.md\)", (ROOT / page).read_text())
