"""/client/: a package index (PEP 503) with the capture client, for `pip install --index-url`.

Its wheel is built from the source tree. The build reads no network. Its bytes depend only on the
sources, so every process serves the same file under the same digest.
"""

import hashlib
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from flask import Blueprint, Response, make_response, render_template

from service.config.resources import RESOURCES
from service.errors import NotFoundError
from service.web.http.conditional import add_conditions

_SOURCE: Final = RESOURCES / "client"
_build_lock: Final = threading.Lock()
# The digest is part of the file's address, so the address never serves other bytes.
_FOR_GOOD = "public, max-age=31536000, immutable"

blueprint = Blueprint("client_index", __name__, url_prefix="/client")


@blueprint.get("/", strict_slashes=False)
def projects() -> Response:
    """List the projects of the index: the client alone."""
    return _index_page("client_projects")


@blueprint.get("/tallystick/", strict_slashes=False)
def files() -> Response:
    """List the client's files, with what pip checks before it installs one."""
    return _index_page("client_files")


@blueprint.get("/files/<digest>/<file_name>")
def download(digest: str, file_name: str) -> Response:
    """Send the wheel that has this digest."""
    wheel = get_client_wheel()
    if (digest, file_name) != (wheel.sha256, wheel.file_name):
        raise NotFoundError
    response = make_response(wheel.content)
    response.mimetype = "application/octet-stream"
    response.headers["Cache-Control"] = _FOR_GOOD
    return add_conditions(response)


def _index_page(name: str) -> Response:
    response = make_response(render_template(f"pages/public/{name}.html", wheel=get_client_wheel()))
    response.headers["Cache-Control"] = "no-cache"
    return add_conditions(response)


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
