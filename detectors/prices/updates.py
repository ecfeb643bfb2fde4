"""Updates of the price book, as genai-prices publishes them, and whether an audit is older.

An update is a file beside the installed prices. A file that is missing, damaged or older than the
installed version is ignored, so that an update never stops an audit.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
from genai_prices import __version__
from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import _providers_from_raw
from genai_prices.update_prices import DEFAULT_UPDATE_URL

from detectors.contract import UNITS, PriceSource, Report, SpendByModel, UnpricedModel
from detectors.errors import PriceUpdateError
from detectors.prices.book import PriceBook

MAX_BYTES: Final = 64 << 20
TIMEOUT_SECONDS: Final = 10.0  # without a byte
MAX_SECONDS: Final = 60.0
# Reports compare at most so many models with a price, and so many without.
_MOST_MODELS: Final = 100
_LEAST_SHARE: Final = 0.5
_FILE: Final = "prices.json"
_DIGITS: Final = 32

Labelled = Sequence[SpendByModel] | Sequence[UnpricedModel]


def default_file() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "tallystick" / _FILE


def update(file: Path, url: str | None = None) -> PriceBook:
    """Fetch the published prices, check them, and replace the file; return their price book.

    Anything that goes wrong raises `PriceUpdateError` and leaves the file as it was.
    """
    content = fetch(url)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        try:
            # At once, so that no reader sees a part of it.
            with os.fdopen(handle, "wb") as temporary:
                temporary.write(content)
            Path(name).chmod(0o644)
            Path(name).replace(file)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PriceUpdateError(f"cannot write {file}: {error.strerror}") from error
    return load(file)


def fetch(url: str | None = None) -> bytes:
    """Fetch the published prices and check them; return what to store.

    Anything that goes wrong raises `PriceUpdateError`.
    """
    url = url or DEFAULT_UPDATE_URL
    payload, ends_at = bytearray(), time.monotonic() + MAX_SECONDS
    try:
        with httpx2.stream("GET", url, timeout=TIMEOUT_SECONDS) as response:
            response.raise_for_status()
            for part in response.iter_bytes():
                payload += part
                if len(payload) > MAX_BYTES:
                    limit = f"{MAX_BYTES:,} bytes"
                    raise PriceUpdateError(f"the prices at {url} are larger than {limit}")
                if time.monotonic() > ends_at:
                    raise PriceUpdateError(f"cannot fetch {url} within {MAX_SECONDS:.0f} seconds")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise PriceUpdateError(f"cannot fetch {url}: {error}") from error
    try:
        providers = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise PriceUpdateError(f"the prices at {url} are not JSON") from error
    _read(providers)
    stored = {
        "as_of": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "providers": providers,
    }
    return json.dumps(stored).encode()


class Update(msgspec.Struct, frozen=True):
    snapshot: DataSnapshot
    version: str
    as_of: str

    def make_book(self) -> PriceBook:
        return PriceBook(self.snapshot, version=self.version, as_of=self.as_of)


def read(content: bytes) -> Update | None:
    """Read a stored update; return None if it is damaged or of another version."""
    with suppress(ValueError, TypeError, KeyError, PriceUpdateError):
        stored = json.loads(content)
        if stored["version"] == __version__:
            as_of = datetime.fromisoformat(stored["as_of"]).date().isoformat()
            return Update(_read(stored["providers"]), f"{stored['version']}+{as_of}", as_of)
    return None


def load(file: Path | None = None) -> PriceBook:
    """Return the price book of the file; the installed one if there is no newer update."""
    with suppress(OSError):
        found = read((file or default_file()).read_bytes())
        if found is not None:
            return found.make_book()
    return PriceBook()


def _read(providers: Any) -> DataSnapshot:
    try:
        read = _providers_from_raw(providers)
    except (ValueError, TypeError) as error:
        raise PriceUpdateError(f"the published prices have another form: {error}") from error
    models = sum(len(provider.models) for provider in read)
    known = sum(len(provider.models) for provider in get_snapshot().providers)
    if models < known * _LEAST_SHARE:
        raise PriceUpdateError(f"the published prices have only {models:,} models")
    return DataSnapshot(providers=read, from_auto_update=True)


def describe(
    book: PriceBook, models: Labelled, unpriced: Labelled, first: str | None, last: str | None
) -> PriceSource:
    """Describe the prices of a report with these models between its first and last call."""
    fingerprint = ""
    if first is not None and last is not None:
        labelled = (*models[:_MOST_MODELS], *unpriced[:_MOST_MODELS])
        names = {(each.provider, each.model) for each in labelled}
        period = datetime.fromisoformat(first), datetime.fromisoformat(last)
        fingerprint = digest_rates(book, names, *period)
    return PriceSource(
        source=book.source,
        version=book.version,
        negotiated=book.negotiated,
        as_of=book.as_of,
        aliases=book.aliases,
        excluded=book.excluded,
        fingerprint=fingerprint,
    )


def is_outdated(report: Report, book: PriceBook) -> bool:
    """Check whether the book has other prices for the report's models in its period.

    Reports of earlier versions have no fingerprint and count as up to date.
    """
    models, unpriced = report.spend_by_model, report.unpriced
    period = report.audit.first_call, report.audit.last_call
    today = describe(book, models, unpriced, *period).fingerprint
    return bool(report.prices.fingerprint) and report.prices.fingerprint != today


def digest_rates(
    book: PriceBook, models: Iterable[tuple[str, str]], first: datetime, last: datetime
) -> str:
    """Digest the rates of these models between two times; equal digests mean equal prices."""
    names = sorted(set(models))
    rates = []
    for name in names:
        found = list[object](name)
        listing = book.find_listing(*name)
        if listing is not None:
            # At every time and prompt length at which they change in the period.
            changes = listing.find_boundaries()
            moments = sorted({first, *(each for each in changes.moments if first < each <= last)})
            lengths = [0, *(start + 1 for start in sorted(changes.prompt_tokens))]
            for priced in filter(None, (listing, listing.target)):
                for at in moments:
                    at_all = (priced.find_rates(at, each, measured=UNITS) for each in lengths)
                    found.append([sorted(each.own.items()) if each else None for each in at_all])
        rates.append(tuple(found))
    return hashlib.sha256(repr(rates).encode()).hexdigest()[:_DIGITS]
