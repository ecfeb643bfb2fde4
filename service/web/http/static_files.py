"""Static files: addresses that change with their content, so that browsers keep them for good."""

import hashlib
from pathlib import Path
from typing import Final

from flask import Flask, Response, request

# The names in this folder have a version, so their content never changes.
_VERSIONED: Final = "vendor/"
_VERSION: Final = "v"
_FOR_GOOD: Final = "public, max-age=31536000, immutable"


def init_static_files(app: Flask) -> None:
    """Let templates name a file as `static["name"]`, and caches keep what can't change."""
    folder = Path(app.static_folder or "")
    digests = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    app.jinja_env.globals["static"] = {
        name: f"/static/{name}"
        if name.startswith(_VERSIONED)
        else f"/static/{name}?{_VERSION}={digest}"
        for name, digest in digests.items()
    }

    @app.after_request
    def _keep(response: Response) -> Response:
        if request.endpoint == "static" and response.status_code in (200, 304):
            response.direct_passthrough = False
            response.make_sequence()  # small files, which are compressed as a whole
            name = (request.view_args or {})["filename"]
            version = request.args.get(_VERSION)
            is_named = version is not None and version == digests.get(name)
            if is_named or name.startswith(_VERSIONED):
                response.headers["Cache-Control"] = _FOR_GOOD
        return response
