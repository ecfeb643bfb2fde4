"""The prices of the installed genai-prices, from a file that loads in a few milliseconds.

Loading genai-prices means loading pydantic, HTTPX and all prices, a quarter of an audit of few
calls. `data/installed.json` has the same prices of one version (module `compiling` writes it). It
is read only if exactly that version is installed and no code of this process has loaded it yet:
otherwise its own objects are used.
"""

import sys
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from detectors.prices.lookup.records import Snapshot

if TYPE_CHECKING:
    from detectors.prices.lookup.records import AnySnapshot

DATA_FILE: Final = "installed.json"
PACKAGE: Final = "genai_prices"
# The modules whose content the file repeats.
SOURCES: Final = ("data.py", "data_units.py")

RawUnits = Mapping[str, Mapping[str, Any]]


def installed() -> "AnySnapshot":
    """Return the prices of the installed genai-prices, or those that this process has set."""
    if PACKAGE not in sys.modules:
        found = compiled()
        if found is not None:
            return found
    from genai_prices.data_snapshot import get_snapshot  # takes long to load

    return get_snapshot()


def installed_version() -> str:
    found = compiled()
    if found is not None:
        return found.version
    from genai_prices import __version__  # takes long to load

    return __version__


def raw_units() -> RawUnits:
    """Return the units of the installed genai-prices with their price key and dimensions."""
    found = compiled()
    if found is not None:
        return found.units
    from genai_prices.data_units import unit_data  # takes long to load

    return unit_data


@cache
def compiled() -> Snapshot | None:
    file = files("detectors.prices").joinpath("data", DATA_FILE)
    snapshot = msgspec.json.decode(file.read_bytes(), type=Snapshot)
    return snapshot if is_installed(snapshot) else None


def is_installed(snapshot: Snapshot) -> bool:
    """Check whether genai-prices is installed in the version of these prices, unchanged."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return False
    folder = Path(spec.origin).parent
    metadata = folder.with_name(f"{PACKAGE}-{snapshot.version}.dist-info")
    return metadata.is_dir() and snapshot.sources == digest_sources(folder)


def digest_sources(folder: Path) -> dict[str, str]:
    return {
        name: sha256((folder / name).read_bytes()).hexdigest()
        for name in SOURCES
        if (folder / name).is_file()
    }
