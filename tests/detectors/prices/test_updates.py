"""Updates of the price book come from a file, and never stop an audit."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import genai_prices
import pytest

import detectors
from detectors import PriceBook
from detectors.errors import PriceUpdateError
from detectors.prices import updates
from tests.detectors.prices.published import Publisher, make_providers, started_publisher

CALL = {
    "ts": "2026-11-02T10:00:00Z",
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 1_000,
    "completion_tokens": 0,
}


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with started_publisher() as publisher:
        yield publisher


def test_an_update_is_used_from_then_on_and_named_in_the_report(
    publisher: Publisher, tmp_path: Path
) -> None:
    publisher.publish(make_providers(7.0))
    book = updates.update(tmp_path / "new" / "prices.json", publisher.url)
    today = datetime.now(UTC).date().isoformat()
    assert book.version == f"{genai_prices.__version__}+{today}"
    report = detectors.audit([CALL], prices=updates.load(tmp_path / "new" / "prices.json"))
    assert float(report.audit.total_spend_usd) == pytest.approx(0.007)
    assert (report.prices.as_of, report.prices.version) == (today, book.version)


@pytest.mark.parametrize(
    "body",
    [b"no json", [], {"a": 1}, make_providers(1.0)[0]["models"], [{"id": 5}], b"[" * 100_000],
)
def test_what_is_no_price_book_leaves_the_file_as_it_was(
    publisher: Publisher, tmp_path: Path, body: object
) -> None:
    file = tmp_path / "prices.json"
    publisher.publish(make_providers(7.0))
    updates.update(file, publisher.url)
    before = file.read_bytes()
    publisher.publish(body)
    with pytest.raises(PriceUpdateError):
        updates.update(file, publisher.url)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["prices.json"]


def test_a_server_that_fails_or_is_missing_is_an_error_of_its_own(
    publisher: Publisher, tmp_path: Path
) -> None:
    publisher.status = 503
    for url in (publisher.url, "http://127.0.0.1:9/", "file:///etc/hosts", "http://[bad"):
        with pytest.raises(PriceUpdateError):
            updates.update(tmp_path / "prices.json", url)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        json.dumps({"version": "0.0.1", "as_of": "2026-11-22", "providers": []}).encode(),
        json.dumps(
            {"version": genai_prices.__version__, "as_of": "2026-11-22", "providers": []}
        ).encode(),
        json.dumps({"version": genai_prices.__version__, "as_of": 5, "providers": []}).encode(),
    ],
)
def test_a_damaged_or_older_update_is_ignored(tmp_path: Path, stored: bytes) -> None:
    file = tmp_path / "prices.json"
    file.write_bytes(stored)
    assert updates.load(file).version == genai_prices.__version__
    assert updates.load(tmp_path / "none.json").as_of == ""


def test_a_report_is_outdated_once_a_price_that_concerns_it_changes() -> None:
    report = detectors.audit([CALL, {**CALL, "model": "house-model"}])
    assert not updates.is_outdated(report, PriceBook())
    terms: list[dict[str, Any]] = [
        {"discounts": {"openai": 0.1}},
        {"overrides": {("openai", "house-model"): {"input_mtok": 1, "output_mtok": 2}}},
        {"aliases": {("openai", "house-*"): ("openai", "gpt-5.4")}},
    ]
    for changed in terms:
        assert updates.is_outdated(report, PriceBook(**changed)), changed
    unrelated: list[dict[str, Any]] = [
        {"discounts": {"anthropic": 0.1}},
        {"discounts": {"openai": {"share": 0.1, "from": "2026-11-03"}}},
        {"discounts": {"openai": {"share": 0.1, "until": "2026-11-01"}}},
    ]
    for other in unrelated:
        assert not updates.is_outdated(report, PriceBook(**other)), other


def test_a_report_without_calls_or_of_an_earlier_version_is_never_outdated() -> None:
    empty = detectors.audit([])
    assert not updates.is_outdated(empty, PriceBook(discounts={"openai": 0.1}))
