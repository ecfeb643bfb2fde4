"""Start Debian's nginx and Caddy with the configurations of `deploy/`, in front of a service.

Only names, addresses and folders are replaced, and each must be there to replace.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from requests.adapters import HTTPAdapter

from tests.service.support.live import free_port

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
HOST: Final = "tallystick.example.com"

# What Debian's own nginx.conf adds to a file of conf.d, in folders of the test.
_NGINX: Final = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log; {user}
events {{ worker_connections 768; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


class From(HTTPAdapter):
    """Connect from another address of this machine, as another client."""

    def __init__(self, address: str) -> None:
        self._address = address
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        options["source_address"] = (self._address, 0)
        super().init_poolmanager(*arguments, **options)


@dataclass(frozen=True)
class Proxy:
    """A running proxy; `network` is the start of the addresses that its clients come from."""

    name: str
    port: int
    folder: Path
    network: str

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def certificate(self) -> str:
        return str(self.folder / "certificate.pem")

    def client(self, number: int = 1) -> requests.Session:
        """The browser of one client, with an address of its own."""
        session = requests.Session()
        session.trust_env = False  # REQUESTS_CA_BUNDLE would replace the certificate
        session.verify = self.certificate
        session.mount("https://", From(f"{self.network}.{number}"))
        return session

    def logs(self) -> str:
        paths = [path for path in self.folder.iterdir() if path.suffix == ".log"]
        return "".join(path.read_text() for path in paths)


@contextmanager
def started_proxy(name: str, folder: Path, *upstreams: str) -> Iterator[Proxy]:
    """Start it in front of one or several instances of the web process."""
    port = free_port()
    write_certificate(folder)
    command = _WRITERS[name](folder, port, upstreams)
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    proxy = Proxy(name, port, folder, {"nginx": "127.0.81", "caddy": "127.0.82"}[name])
    try:
        _wait_until_listening(proxy, process)
        yield proxy
    finally:
        process.terminate()
        process.wait(20)


def _write_nginx(folder: Path, port: int, upstreams: Sequence[str]) -> list[str]:
    site = _replaced(
        DEPLOY / "nginx.conf",
        {
            f"/etc/letsencrypt/live/{HOST}/fullchain.pem": f"{folder}/certificate.pem",
            f"/etc/letsencrypt/live/{HOST}/privkey.pem": f"{folder}/key.pem",
            HOST: "localhost",
            "/var/log/nginx/": f"{folder}/",
            "server 127.0.0.1:8000 max_fails=0;": "".join(
                f"server {upstream} max_fails=0;\n" for upstream in upstreams
            ),
            "listen 443 ": f"listen 127.0.0.1:{port} ",
            "listen 80;": f"listen 127.0.0.1:{free_port()};",
        },
    )
    (folder / "site.conf").write_text(site)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, user=user))
    return [find_proxy("nginx") or "", "-e", f"{folder}/start.log", "-c", f"{folder}/nginx.conf"]


def _write_caddy(folder: Path, port: int, upstreams: Sequence[str]) -> list[str]:
    site = _replaced(
        DEPLOY / "Caddyfile",
        {
            "\n{\n": f"\n{{\n\tadmin off\n\thttp_port {free_port()}\n",
            f"{{$TALLYSTICK_HOST:{HOST}}} {{\n": f"localhost:{port} {{\n\tbind 127.0.0.1\n"
            f"\ttls {folder}/certificate.pem {folder}/key.pem\n",
            "/var/log/caddy/": f"{folder}/",
            "#health_": "health_" if len(upstreams) > 1 else "#health_",
            "127.0.0.1:8000": " ".join(upstreams),
        },
    )
    (folder / "Caddyfile").write_text(site)
    return [find_proxy("caddy") or "", "run", "--config", f"{folder}/Caddyfile"]


_WRITERS: Final[Mapping[str, Callable[[Path, int, Sequence[str]], list[str]]]] = {
    "nginx": _write_nginx,
    "caddy": _write_caddy,
}


def find_proxy(name: str) -> str | None:
    """Return the path of the program; nginx isn't on the search path of ordinary users."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def _replaced(path: Path, replacements: Mapping[str, str]) -> str:
    text = path.read_text()
    for old, new in replacements.items():
        assert old in text, f"{path} doesn't contain {old!r}"
        text = text.replace(old, new)
    return text


def _wait_until_listening(proxy: Proxy, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", proxy.port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(proxy.logs())


def write_certificate(folder: Path) -> None:
    """Write a certificate for localhost, signed by its own key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = (
        builder.not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(pem, plain, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
