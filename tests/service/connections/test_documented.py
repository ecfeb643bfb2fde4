"""The responses that providers document become the lines that they should."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import service.connections
from service.connections import list_providers
from tests.cases import each_case

FIXTURES = sorted(Path(service.connections.__file__).parent.glob("*/fixtures/*.json"))


def _describe(line: Any) -> dict[str, Any]:
    """Return what a line has beside its defaults, as JSON has it."""
    found = {}
    for field in fields(line):
        value = getattr(line, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value != default:
            found[field.name] = value
    found["bucket"] = line.bucket.isoformat()
    for name in {"amount", "list_amount", "estimated_usd", "usd"} & found.keys():
        found[name] = f"{found[name]:f}"
    return found


@each_case("file", FIXTURES)
def test_a_documented_response_is_read_as_it_should(file: Path) -> None:
    case = json.loads(file.read_text(), parse_float=str)
    provider = list_providers()[file.parts[-3].replace("_", "-")]
    [report] = [each for each in provider.reports if each.name == case["report"]]
    page = provider.read_page(report, case["response"])
    assert page.next_page == case["next_page"]
    lines = [line for found in page.buckets.values() for line in found]
    assert [_describe(line) for line in lines] == case["lines"]


def test_every_provider_has_its_documentation_examples_and_stub() -> None:
    for name in list_providers():
        folder = Path(service.connections.__file__).parent / name.replace("-", "_")
        assert (folder / "README.md").exists()
        assert (folder / "stub.py").exists()
        assert list((folder / "fixtures").glob("*.json"))
        assert (folder.parents[2] / "docs" / "connections" / f"{name}.md").exists()
