"""The data files keep up with the price book: every model of the three providers is listed."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider

import detectors
from detectors.prices.model_data import base_name
from tests.cases import each_case

FOLDER = Path(detectors.__file__).parent / "prices" / "data"
VENDORS = ("openai", "anthropic", "google")


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))


def _rungs() -> set[tuple[str, str]]:
    """Every model that the ladder names, the lowest included."""
    return {
        (provider, base_name(name))
        for family in _load("ladder")["family"]
        for provider in family["providers"]
        for pair in family["cheaper"].items()
        for name in pair
    }


def _left_out() -> dict[tuple[str, str], str]:
    return {
        (provider, base_name(name)): entry["reason"]
        for entry in _load("ladder")["left_out"]
        for provider in entry["providers"]
        for name in entry["models"]
    }


def _models(snapshot: DataSnapshot) -> Iterator[tuple[str, str]]:
    for provider in snapshot.providers:
        if provider.id in VENDORS:
            yield from ((provider.id, base_name(info.id)) for info in provider.models)


def _without_place(snapshot: DataSnapshot) -> set[tuple[str, str]]:
    return set(_models(snapshot)) - _rungs() - _left_out().keys()


def test_every_model_of_the_book_is_on_the_ladder_or_excluded() -> None:
    assert _without_place(get_snapshot()) == set()
    assert all(len(reason) > 20 for reason in _left_out().values())
    # A model that is new to the book is noticed.
    info = ModelInfo(id="gpt-7", match=ClauseEquals("gpt-7"), prices=ModelPrice())
    openai = Provider(id="openai", name="OpenAI", api_pattern="openai", models=[info])
    newer = DataSnapshot(providers=[openai], from_auto_update=False)
    assert _without_place(newer) == {("openai", "gpt-7")}
    # Nothing is both on the ladder and excluded.
    assert not _rungs() & _left_out().keys()
    # Every excluded model is still in the book.
    gone = _left_out().keys() - set(_models(get_snapshot()))
    # One reason speaks of two providers, of which not each sells every model of it.
    assert {name for _, name in gone} <= {name for _, name in _models(get_snapshot())}


@each_case("vendor", ["anthropic", "google"])
def test_every_rung_has_a_cache_minimum_or_is_known_to_be_unlisted(vendor: str) -> None:
    table = _load("cache_minimums")
    named = {base_name(one) for entry in table["minimum"] for one in entry["models"]}
    unlisted = {base_name(one) for entry in table["unlisted"] for one in entry["models"]}
    assert not named & unlisted
    assert {name for provider, name in _rungs() if provider == vendor} <= named | unlisted


@each_case(
    ("name", "tables"),
    [
        ("ladder", ["family"]),
        ("successors", ["family"]),
        ("cache_minimums", ["minimum", "unlisted"]),
        ("service_tiers", ["rule"]),
        ("flat_rate_labels", ["label"]),
    ],
)
def test_every_entry_has_its_source(name: str, tables: list[str]) -> None:
    for table in tables:
        assert all(entry["source"].startswith("https://") for entry in _load(name)[table])
