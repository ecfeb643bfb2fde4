"""/client/: a package index (PEP 503) with the capture client, for `pip install --index-url`."""

from flask import Blueprint, Response, make_response, render_template

from service.core.client_wheel import get_client_wheel
from service.errors import NotFoundError
from service.web.http.conditional import add_conditions

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
