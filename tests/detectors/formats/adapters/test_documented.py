"""Each adapter beside the examples of its source's documentation: their counts, and their dollars.

`documented.json` has the rows with the documented counts, where they are documented, and the calls
that they are; or why there are none.
"""

import json
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import detectors.formats.adapters as room
from detectors.contract import UsageRecord
from detectors.formats import read_chunks, records_of
from detectors.formats.adapters import adapters
from detectors.formats.adapters.adapter import unknown_members
from detectors.formats.adapters.rows import parsed
from detectors.prices.book import PriceBook
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.detectors.prices.pricing import price_calls

ROOM: Final = Path(room.__file__).parent
# Every count of a record, and zero where it has none.
COUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
    *("cache_write_1h_tokens", "reasoning_tokens", "audio_prompt_tokens", "image_prompt_tokens"),
    *("audio_completion_tokens", "image_completion_tokens", "web_searches"),
)
TEXT: Final = "A text that never leaves this machine."
UNDOCUMENTED: Final = {"gateways.helicone"}


def documented(name: str) -> Any:
    return json.loads((ROOM / name.replace(".", "/") / "documented.json").read_text())


EXAMPLES: Final = {
    f"{name}-{number}": example
    for name in adapters()
    if name not in UNDOCUMENTED
    for number, example in enumerate(documented(name))
}
BILLS: Final = [name for name, example in EXAMPLES.items() if "usd" in example]


def read(example: dict[str, Any]) -> list[UsageRecord]:
    log = b"\n".join(json.dumps(row).encode() for row in example["rows"])
    scrubbed = b"".join(Scrubber().read(BytesIO(log)))
    return [r for chunk in read_chunks(BytesIO(scrubbed)) for r in records_of(chunk.columns)]


def spend(records: list[UsageRecord]) -> float:
    """The dollars of the calls at the price book's rates."""
    rows = [
        {"at_us": int(record.ts.timestamp() * 1e6), "provider": record.provider}
        | {"model": record.model}
        | {field: getattr(record, field, None) or 0 for field in COUNTS}
        for record in records
    ]
    priced = price_calls(pl.LazyFrame(rows), PriceBook())
    return float(priced.collect()["cost_usd"].sum())


@each_case("name", adapters())
def test_an_adapter_has_examples_of_its_documentation_or_says_why_not(name: str) -> None:
    examples = documented(name)
    if name in UNDOCUMENTED:
        assert examples["none"]
        return
    for example in examples:
        assert example["source"].startswith("https://")
        assert example["rows"]
        assert example["calls"]


@each_case("name", EXAMPLES)
def test_the_counts_are_those_of_the_documentation(name: str) -> None:
    example = EXAMPLES[name]
    records = read(example)
    labels = sorted({name for call in example["calls"] for name in call} - set(COUNTS))
    found = [{name: getattr(r, name, None) or 0 for name in (*COUNTS, *labels)} for r in records]
    wanted = [dict.fromkeys((*COUNTS, *labels), 0) | call for call in example["calls"]]
    assert found == wanted


@each_case("name", EXAMPLES)
def test_only_members_with_text_need_scrub(name: str) -> None:
    adapter = adapters()[name.rpartition("-")[0]]
    for row in EXAMPLES[name]["rows"]:
        for each in row["data"] if isinstance(row.get("data"), list) else [row]:
            for member in unknown_members(each, adapter.allowed):
                assert member == "metadata" or holds_text(each, member.split(".")), member


def holds_text(value: Any, path: list[str]) -> bool:
    for part in path:
        value = parsed(value)[part]
    return TEXT in json.dumps(value) or str(value).startswith("/home/")


@each_case("name", BILLS)
def test_the_dollars_are_those_of_the_documentation(name: str) -> None:
    assert spend(read(EXAMPLES[name])) == pytest.approx(EXAMPLES[name]["usd"], rel=1e-9)


def test_the_documentation_of_two_sources_has_bills() -> None:
    assert len(BILLS) == 4
