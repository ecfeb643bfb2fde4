"""The wheel of the capture client, built from its source tree.

The build reads no network. Its bytes depend only on the sources, so every process serves the same
file under the same digest.
"""

import hashlib
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from service.config.resources import RESOURCES

_SOURCE: Final = RESOURCES / "client"
_build_lock: Final = threading.Lock()


class ClientWheel(NamedTuple):
    """A wheel with its metadata for a package index."""

    project: str
    requires_python: str
    file_name: str
    content: bytes
    sha256: str


def get_client_wheel() -> ClientWheel:
    """Return the client's wheel, built once per process."""
    with _build_lock:  # hatchling's plugins are not made for threads
        return build_wheel(_SOURCE)


@cache
def build_wheel(source: Path) -> ClientWheel:
    """Build the wheel of a source tree that uses hatchling."""
    # A build tool: loaded by the first request for the wheel, not by every process.
    from hatchling.builders.wheel import WheelBuilder

    builder = WheelBuilder(str(source))
    project = builder.metadata.core
    with tempfile.TemporaryDirectory() as folder:
        [built] = builder.build(directory=folder, versions=["standard"])
        file = Path(built)
        content = file.read_bytes()
    return ClientWheel(
        project=project.name,
        requires_python=project.requires_python,
        file_name=file.name,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
    )
