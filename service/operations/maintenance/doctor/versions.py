"""Python, and the libraries against the lock file."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from service.operations.maintenance.doctor.findings import Area, Finding

_AREA: Final = Area("versions")
_LOCK: Final = Path(__file__).parents[4] / "requirements" / "service.lock"
_SHOWN: Final = 5
_OLDEST_PYTHON: Final = (3, 11)


def check_versions(lock: Path = _LOCK) -> Iterator[Finding]:
    """Compare what is installed with what this release was tested with."""
    if sys.version_info < _OLDEST_PYTHON:
        yield _AREA.fail(f"Python {platform.python_version()} is too old", "install 3.11 or later")
    else:
        yield _AREA.ok(f"Python {platform.python_version()}")
    if not lock.exists():
        yield _AREA.ok("there is no lock file beside the program, so libraries weren't compared")
        return
    required = [one for one in _read(lock) if one.marker is None or one.marker.evaluate()]
    different = [text for one in required if (text := _difference(one))]
    if not different:
        yield _AREA.ok(f"{len(required)} libraries match the lock file")
        return
    first = ", ".join(different[:_SHOWN])
    more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    yield _AREA.warn(
        f"installed libraries differ from the lock file: {first}{more}",
        f"install those this release was tested with: pip install -r {lock.name}",
    )


def _read(lock: Path) -> Iterator[Requirement]:
    for line in lock.read_text().splitlines():
        if line and not line.startswith((" ", "#", "-")):
            try:
                yield Requirement(line.removesuffix("\\").strip())
            except InvalidRequirement:
                continue


def _difference(required: Requirement) -> str | None:
    try:
        installed = version(required.name)
    except PackageNotFoundError:
        return f"{required.name} is missing"
    return None if installed in required.specifier else f"{required.name} is {installed}"
