"""/client/: the package index that pip installs the capture client from."""

import hashlib
import io
import os
import re
import shutil
import zipfile
from html import unescape
from pathlib import Path

from flask.testing import FlaskClient

import tallystick
from service.web.pages.public.client_index import build_wheel, get_client_wheel

CLIENT = Path(__file__).parents[4] / "client"


def anchors(page: str) -> list[dict[str, str]]:
    """Return the attributes and the text of every link, as pip reads them."""
    found = []
    for attributes, text in re.findall(r"<a ([^>]+)>([^<]+)</a>", page):
        pairs = re.findall(r'([a-z-]+)="([^"]*)"', attributes)
        found.append({name: unescape(value) for name, value in pairs} | {"text": text})
    return found


def load_wheel_link(client: FlaskClient) -> dict[str, str]:
    [project] = anchors(client.get("/client/").text)
    assert project["text"] == "tallystick"
    [file] = anchors(client.get(project["href"]).text)
    return file


def test_the_index_lists_the_wheel_with_its_hash_and_its_python(client: FlaskClient) -> None:
    link = load_wheel_link(client)
    address, _, digest = link["href"].partition("#sha256=")
    assert address.endswith(f"/tallystick-{tallystick.__version__}-py3-none-any.whl")
    assert link["data-requires-python"] == ">=3.9"
    response = client.get(address)
    assert hashlib.sha256(response.data).hexdigest() == digest
    with zipfile.ZipFile(io.BytesIO(response.data)) as archive:
        assert "tallystick/__init__.py" in archive.namelist()
        assert archive.testzip() is None
    # An address without its last slash shows the same page.
    for address in ("/client/", "/client/tallystick/"):
        assert client.get(address.rstrip("/")).data == client.get(address).data
    # The wheel is cached for good and the index is checked again.
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.mimetype == "application/octet-stream"
    assert client.get("/client/").headers["Cache-Control"] == "no-cache"
    for address in ("/client/", "/client/tallystick/", load_wheel_link(client)["href"]):
        tag = client.get(address).headers["ETag"]
        again = client.get(address, headers={"If-None-Match": tag})
        assert (again.status_code, again.data) == (304, b"")
    # No other digest or name leads to the wheel.
    wheel = get_client_wheel()
    other = wheel.file_name.replace("py3", "py2")
    assert client.get(f"/client/files/{'0' * 64}/{wheel.file_name}").status_code == 404
    assert client.get(f"/client/files/{wheel.sha256}/{other}").status_code == 404
    assert client.get("/client/tallystick-server/").status_code == 404


def test_the_same_sources_make_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "client"
    shutil.copytree(CLIENT, copy, copy_function=shutil.copy)
    for path in copy.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1, 1_000_000_000))
    built = build_wheel(copy)
    assert built.content == get_client_wheel().content
    (copy / "tallystick" / "version.py").write_text('__version__ = "0.1.0"  # changed\n')
    build_wheel.cache_clear()
    assert build_wheel(copy).sha256 != built.sha256
