"""The file of prices has what the installed genai-prices has, and finds what it finds."""

import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.data_units import unit_data
from msgspec.structs import replace

from detectors.prices.book import PriceBook
from detectors.prices.lookup import installed
from detectors.prices.lookup.compiling import compile_prices
from detectors.prices.lookup.records import Snapshot
from tests.detectors.prices.labels import labelled
from tests.detectors.prices.test_every_price_of_the_book import _moments

TOKYO = timezone(timedelta(hours=9))
LABELS = (None, "litellm", "LiteLLM", "bedrock", " OpenAI", "nobody", "azure", "google")


@pytest.fixture
def compiled() -> Snapshot:
    found = installed.compiled()
    assert found is not None, "make compact-prices"
    return found


@pytest.fixture
def other_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file of prices is that of another genai-prices."""
    monkeypatch.setattr(installed, "SOURCES", installed.SOURCES[:1])
    installed.compiled.cache_clear()
    yield
    installed.compiled.cache_clear()


def test_the_file_has_the_installed_prices() -> None:
    """If this fails after an upgrade of genai-prices: make compact-prices."""
    file = Path(installed.__file__).parents[1] / "data" / installed.DATA_FILE
    assert file.read_text() == compile_prices()
    license_text = metadata.distribution("genai-prices").read_text("licenses/LICENSE")
    assert file.with_name("genai-prices-LICENSE").read_text() == license_text


def test_the_file_is_written_before_the_price_book_reads_it() -> None:
    """Otherwise a damaged file must be restored before it can be written again."""
    folder = Path(installed.__file__).parents[3]
    recipe = subprocess.check_output(["make", "-n", "compact-prices"], cwd=folder, text=True)
    assert re.findall(r"prices\.lookup\.(\w+) >", recipe) == ["compiling", "compact"]


def _plain(prices: object) -> dict[str, Any]:
    return {key: _rate(rate) for key, rate in vars(prices).items() if rate is not None}


def _rate(rate: Any) -> Any:
    if isinstance(rate, Decimal):
        return rate
    return rate.base, [(tier.start, tier.price) for tier in rate.tiers]


def _contexts(info: Any) -> Iterator[Mapping[str, str] | None]:
    kinds = [variant.when for variant in info.price_variants or ()]
    yield from (None, {"service_tier": "other"}, *kinds)
    yield {key: value for kind in kinds for key, value in kind.items()}


def test_every_model_has_the_same_prices_at_every_time(compiled: Snapshot) -> None:
    for own, theirs in zip(compiled.providers, get_snapshot().providers, strict=True):
        assert (own.id, own.fallback_model_providers) == (
            theirs.id,
            theirs.fallback_model_providers,
        )
        for mine, info in zip(own.models, theirs.models, strict=True):
            assert (mine.id, mine.context_window) == (info.id, info.context_window)
            for at in _moments(info):
                for moment in (at, at.astimezone(TOKYO), at.replace(tzinfo=None)):
                    expected = _plain(info.get_prices(moment))
                    assert _plain(mine.get_prices(moment)) == expected
                for context in _contexts(info) if info.price_variants else ():
                    expected = _plain(info.get_prices(at, context))
                    assert _plain(mine.get_prices(at, context)) == expected


def _spellings() -> Iterator[tuple[str | None, str]]:
    """Yield names of models as logs write them, of many providers and of none."""
    for number, (provider, _, label) in enumerate(labelled()):
        other = LABELS[number % len(LABELS)]
        wrong = ("-20251399", "-20260101:x", "-20250230-20250101", "\n", "-latest")[number % 5]
        yield from ((provider.id, label.upper()), (other, label), (other, f"{provider.id}/{label}"))
        yield provider.id, label + wrong
        yield provider.id, label.replace("-2025-", "-2025").replace("-2026-", "-2026")


def _find(snapshot: DataSnapshot | Snapshot, provider: str | None, model: str) -> Any:
    try:
        found, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    return found.id, info.id


def test_names_mean_the_same_models(compiled: Snapshot) -> None:
    names = list(_spellings())[::40]
    expected = [_find(get_snapshot(), *name) for name in names]
    assert len(set(expected)) > 50
    assert [_find(compiled, *name) for name in names] == expected


def test_it_is_used_in_a_process_that_has_not_loaded_the_package(
    compiled: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed.installed() is get_snapshot()
    monkeypatch.delitem(sys.modules, "genai_prices")
    assert installed.installed() is compiled


@pytest.mark.usefixtures("compiled")
def test_a_copied_price_book_has_its_negotiated_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is the same object under all its names, in a book from another process, too."""
    monkeypatch.delitem(sys.modules, "genai_prices")
    book = PriceBook(overrides={("openai", "gpt-4o"): {"input_mtok": 1, "output_mtok": 2}})
    listing = pickle.loads(pickle.dumps(book)).find_listing("OpenAI", "gpt-4o-2024-08-06")
    rates = listing.find_rates(datetime(2026, 5, 1, tzinfo=UTC), 0)
    assert rates.input_usd == 1e-6


@pytest.mark.usefixtures("other_version")
def test_prices_of_another_version_are_those_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert installed.compiled() is None
    monkeypatch.setattr(installed, "PACKAGE", "none")
    assert installed.installed() is get_snapshot()
    assert installed.installed_version() == genai_prices.__version__
    assert installed.raw_units() is unit_data


def test_it_is_of_one_version_that_is_installed(
    compiled: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed.is_installed(compiled)
    assert not installed.is_installed(replace(compiled, version="0.0.1"))
    assert not installed.is_installed(replace(compiled, sources={}))
    monkeypatch.setattr(installed, "PACKAGE", "no_such_package")
    assert not installed.is_installed(compiled)
