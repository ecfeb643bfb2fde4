"""Updates of the price book come from a file, and never stop an audit."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import genai_prices
import pytest

import detectors
from detectors import PriceBook
from detectors.errors import PriceUpdateError
from detectors.prices import updates

CALL = {
    "ts": "2026-11-02T10:00:00Z",
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 1_000,
    "completion_tokens": 0,
}


def _providers(rate: float) -> list[dict[str, Any]]:
    """A book as it is published: many models, and gpt-5.4 at this rate."""
    models = [
        {"id": f"m-{n}", "match": {"equals": f"m-{n}"}, "prices": {"input_mtok": 1}}
        for n in range(2_000)
    ]
    rates = {"input_mtok": rate, "output_mtok": 15}
    known = {"id": "gpt-5.4", "match": {"equals": "gpt-5.4"}, "prices": rates}
    openai = {"id": "openai", "name": "OpenAI", "api_pattern": "x", "models": [known, *models]}
    return [openai]


class _Published(BaseHTTPRequestHandler):
    body = b"[]"
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    httpd = HTTPServer(("127.0.0.1", 0), _Published)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    _Published.status = 200
    yield f"http://127.0.0.1:{httpd.server_port}/data.json"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def _publish(body: object) -> None:
    _Published.body = body if isinstance(body, bytes) else json.dumps(body).encode()


def test_an_update_is_used_from_then_on_and_named_in_the_report(
    server: str, tmp_path: Path
) -> None:
    _publish(_providers(7.0))
    book = updates.update(tmp_path / "new" / "prices.json", server)
    today = datetime.now(UTC).date().isoformat()
    assert book.version == f"{genai_prices.__version__}+{today}"
    report = detectors.audit([CALL], prices=updates.load(tmp_path / "new" / "prices.json"))
    assert float(report.audit.total_spend_usd) == pytest.approx(0.007)
    assert (report.prices.as_of, report.prices.version) == (today, book.version)


@pytest.mark.parametrize(
    "body", [b"no json", [], {"a": 1}, _providers(1.0)[0]["models"], [{"id": 5}], b"[" * 100_000]
)
def test_what_is_no_price_book_leaves_the_file_as_it_was(
    server: str, tmp_path: Path, body: object
) -> None:
    file = tmp_path / "prices.json"
    _publish(_providers(7.0))
    updates.update(file, server)
    before = file.read_bytes()
    _publish(body)
    with pytest.raises(PriceUpdateError):
        updates.update(file, server)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["prices.json"]


def test_a_server_that_fails_or_is_missing_is_an_error_of_its_own(
    server: str, tmp_path: Path
) -> None:
    _Published.status = 503
    for url in (server, "http://127.0.0.1:9/", "file:///etc/hosts", "http://[bad"):
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
