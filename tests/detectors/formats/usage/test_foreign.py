"""The price book's own test bodies: read as its extractors read them, or better, with a reason.

`foreign.jsonl` has each shape once of the 1,577 bodies in tests/dataset/usages.json of genai-prices
(MIT license), without their files' names. `units` are those of the extractor that finds most.
"""

import json
from pathlib import Path
from typing import Any, Final

from detectors.contract.units import FIELDS_OF_UNITS
from detectors.formats.json_logs.usage.reader import read_usage
from tests.cases import each_case

BODIES: Final = [
    json.loads(line) for line in Path(__file__).with_name("foreign.jsonl").read_text().splitlines()
]
_UNITS: Final = {field: unit for unit, field in FIELDS_OF_UNITS.items()}
# The rest of their whole, which records don't have.
_RESTS: Final = ("cache_write_5m_tokens", "input_tool_tokens")


def _units(body: dict[str, Any]) -> dict[str, Any]:
    usage = next(body[name] for name in ("usage", "usageMetadata", "meta") if name in body)
    model = body.get("model") or body.get("modelVersion")
    reading = read_usage(usage, model=model, may_lack_output=True)[0]
    counts = {_UNITS[name]: count for name, count in reading.fields().items() if count}
    return counts | reading.units


@each_case("case", BODIES)
def test_a_body_of_the_price_book_is_read_as_its_extractors_do(case: dict[str, Any]) -> None:
    theirs = {n: count for n, count in case["units"].items() if n not in _RESTS and "text" not in n}
    expected = case["ours"] if "why" in case else theirs
    assert _units(case["body"]) == expected


def test_the_differences_are_few_and_have_a_reason() -> None:
    different = [case for case in BODIES if "why" in case]
    assert len(different) == 4
    for case in different:
        assert case["why"]
        assert case["ours"] != case["units"]
        assert all(case["ours"].get(name, 0) >= count for name, count in case["units"].items())
