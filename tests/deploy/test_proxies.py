"""The configurations in `deploy/` under the real nginx and Caddy, in front of one live service."""

import json
import re
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.deploy.manifests import run, tool
from tests.deploy.proxies import DEPLOY, HOST, Proxy, find_proxy, started_proxy
from tests.service.support.live import LiveService, start_live_service, stop_live_service
from tests.service.support.scenes import ADMIN_TOKEN, AUDITS, INGEST, batch
from tests.service.support.slow_clients import CROWDS, Crowd, answer_times, small_socket
from tests.service.support.uploads import add_person, log_file
from tests.worker.support.promises import Note
from tests.worker.support.system import UNLIMITED

EARLY_ACCESS = "/api/v1/early-access"
SECRET = "a-secret-of-a-link"
# Row 19 and row 37 at full count.
CLIENTS, CROWD_SECONDS, LONGEST_SECONDS = 300, 60.0, 10.0


@pytest.fixture(scope="module")
def proxied(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """One service for both proxies, with the settings that the configurations name."""
    folder = tmp_path_factory.mktemp("proxied")
    limits = {"ingest_key_limit_per_minute": UNLIMITED, "queued_audits_free": UNLIMITED}
    settings = {**limits, "admin_token": ADMIN_TOKEN, "trusted_proxies": 1}
    service = start_live_service(database_url, redis_url, folder, **settings)
    yield service
    stop_live_service(service)


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, proxied: LiveService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    name: str = request.param
    if find_proxy(name) is None:
        pytest.skip(f"no {name} here: install Debian's (apt install nginx-light caddy)")
    upstream = proxied.url.removeprefix("http://")
    with started_proxy(name, tmp_path_factory.mktemp(name), upstream) as proxy:
        yield proxy


def test_pages_and_batches_pass(proxy: Proxy, proxied: LiveService) -> None:
    page = proxy.client().get(f"{proxy.url}/sign-in")
    assert (page.status_code, page.headers["X-Frame-Options"]) == (200, "DENY")
    assert "Sign in" in page.text
    answer = proxy.client().post(
        f"{proxy.url}{INGEST}", json=batch(5000), headers=proxied.add_tenant().writes
    )
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_pages_and_files_arrive_compressed_and_files_are_kept(proxy: Proxy, encoding: str) -> None:
    client, accepted = proxy.client(), {"Accept-Encoding": encoding}
    page = client.get(f"{proxy.url}/sign-in", headers=accepted, stream=True)
    assert page.headers["Content-Encoding"] == encoding
    plain = client.get(f"{proxy.url}/sign-in", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    [path] = re.findall(r'href="(/static/tallystick\.css\?v=\w+)"', plain.text)
    style = client.get(f"{proxy.url}{path}", headers=accepted, stream=True)
    assert style.headers["Content-Encoding"] == encoding
    assert style.headers["Cache-Control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("line", ["#tls internal", "tls internal"])
def test_caddy_signs_for_a_name_of_a_private_network_if_told_to(line: str, tmp_path: Path) -> None:
    site = (DEPLOY / "Caddyfile").read_text()
    assert "\t#tls internal\n" in site
    (tmp_path / "Caddyfile").write_text(site.replace("#tls internal", line))
    adapted = run(
        tool("caddy"), "adapt", "--config", tmp_path / "Caddyfile", stderr=subprocess.DEVNULL
    )
    policies = [{"subjects": [HOST], "issuers": [{"module": "internal"}]}]
    automation = json.loads(adapted.stdout)["apps"].get("tls", {}).get("automation", {})
    assert automation.get("policies", []) == (policies if line == "tls internal" else [])


def test_an_upload_of_megabytes_passes(proxy: Proxy, proxied: LiveService) -> None:
    person = add_person(proxied.sessions, credits=1)
    file = log_file(30_000)
    assert len(file) > 4 * 2**20
    files = {"file": ("usage.jsonl", file, "application/octet-stream")}
    answer = proxy.client().post(f"{proxy.url}{AUDITS}", files=files, headers=person.headers)
    assert answer.status_code == 201, answer.text


def test_a_body_over_a_limit_gets_the_envelope(proxy: Proxy, proxied: LiveService) -> None:
    """From the service, or from the proxy where it refuses first."""
    authorization = proxied.add_tenant().writes["Authorization"]
    answer = send_head(proxy, INGEST, 110 * 2**20, authorization)
    assert answer.startswith(b"HTTP/1.1 413 "), answer
    assert b'"payload_too_large"' in answer


def test_an_upload_is_refused_before_its_file_is_sent(proxy: Proxy) -> None:
    answer = send_head(proxy, AUDITS, 200 * 2**20, "none")
    assert answer.startswith(b"HTTP/1.1 401 "), answer


def send_head(proxy: Proxy, path: str, size: int, authorization: str) -> bytes:
    """Return the start of the response to a request whose body doesn't come."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {size}\r\nConnection: close\r\n\r\n--x\r\n"
    )
    with connect(proxy, 1) as connection:
        connection.sendall(head.encode())
        answer = b""
        while b"}}" not in answer and (received := connection.recv(65536)):
            answer += received
        return answer


def test_a_forged_address_or_scheme_changes_nothing(proxy: Proxy) -> None:
    """Early-access requests are limited to 5 a minute per address."""
    statuses = [join(proxy.client(2), proxy, number) for number in range(6)]
    assert statuses == [200] * 5 + [429]
    assert join(proxy.client(3), proxy, 7) == 200
    # The site is https, whatever the client says.
    forged = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example", "Host": "localhost"}
    for origin, status in (("https://localhost", 200), ("http://localhost", 403)):
        headers = {**forged, "Origin": origin}
        answer = proxy.client(3).post(f"{proxy.url}/auth/logout", headers=headers)
        assert answer.status_code == status, (origin, answer.text)


def join(client: requests.Session, proxy: Proxy, number: int) -> int:
    forged = {
        "X-Forwarded-For": f"203.0.113.{number}",
        "X-Real-IP": f"203.0.113.{number}",
        "Forwarded": f"for=203.0.113.{number}",
    }
    body = {"email": f"{proxy.name}-{number}@example.org"}
    return client.post(f"{proxy.url}{EARLY_ACCESS}", json=body, headers=forged).status_code


@pytest.mark.parametrize("path", ["/admin", "/metrics", "/readyz"])
def test_what_is_for_this_machine_is_hidden_from_outside(
    proxy: Proxy, proxied: LiveService, path: str
) -> None:
    token = {"X-Admin-Token": ADMIN_TOKEN}
    assert proxy.client().get(f"{proxy.url}{path}", headers=token).status_code == 404
    if path != "/metrics":  # a process of its own serves it
        assert requests.get(f"{proxied.url}{path}", headers=token, timeout=60).ok


def test_logs_hold_no_report_link_and_no_query(proxy: Proxy) -> None:
    client, referer = proxy.client(), {"Referer": f"{proxy.url}/r/{SECRET}"}
    for path in ("/r/", "/R/", "//r/", "/%72/", "/sign-in?token=", "/sample?"):
        client.get(f"{proxy.url}{path}{SECRET}", headers=referer)
    deadline = time.monotonic() + 60
    while "/sample" not in (log := proxy.logs()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "/sign-in" in log
    assert "/sample" in log
    assert SECRET not in log


def test_slow_senders_stop_nobody(proxy: Proxy) -> None:
    """They wait in nginx; Caddy passes them on, and they wait in the service."""
    with slow_crowd(proxy, "senders of bodies"):
        time.sleep(1)
        with proxy.client(5) as client:
            for _ in range(15):
                assert client.get(f"{proxy.url}/healthz", timeout=60).status_code == 200
                time.sleep(0.1)


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["senders of bodies", "readers that never read"])
def test_a_minute_of_slow_clients_stops_nobody(proxy: Proxy, kind: str, note: Note) -> None:
    """The test above is the smaller proof."""
    with slow_crowd(proxy, kind) as crowd, proxy.client(5) as client:
        time.sleep(2)

        def ask() -> int:
            return client.get(f"{proxy.url}/healthz", timeout=10).status_code

        waits = sorted(answer_times(ask, CROWD_SECONDS))
    wait = waits[len(waits) * 99 // 100]
    name = f"37 {crowd.size} {kind}, {proxy.name}: /healthz p99 {wait * 1000:.0f} ms"
    note(name, len(waits), wait > 1)


@pytest.mark.stress
def test_more_clients_than_are_served_are_answered_in_time(
    proxy: Proxy, proxied: LiveService, note: Note
) -> None:
    """`tests/worker/reliability/test_pressure.py` has the smaller proof, without a proxy."""
    headers, body = proxied.add_tenant().writes, batch(10)
    ends_at = time.monotonic() + CROWD_SECONDS

    def send(number: int) -> list[tuple[int, float, bool]]:
        answers = []
        with proxy.client(1 + number % 250) as client:
            while (began_at := time.monotonic()) < ends_at:
                try:
                    answer = client.post(
                        f"{proxy.url}{INGEST}", json=body, headers=headers, timeout=60
                    )
                    status = answer.status_code
                    is_clear = status == 201 or "Retry-After" in answer.headers
                except requests.RequestException:
                    status, is_clear = 0, False
                answers.append((status, time.monotonic() - began_at, is_clear))
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [one for given in pool.map(send, range(CLIENTS)) for one in given]
    statuses = Counter(status for status, _, _ in answers)
    slow = sum(seconds > LONGEST_SECONDS for _, seconds, _ in answers)
    unclear = sum(not is_clear for _, _, is_clear in answers)
    strange = sum(count for status, count in statuses.items() if status not in (201, 429, 503))
    assert statuses[201]
    name = f"19 back-pressure, {CLIENTS} clients, {proxy.name}: {dict(statuses)}"
    note(name, len(answers), slow + unclear + strange)


def slow_crowd(proxy: Proxy, kind: str) -> Crowd:
    """Return slow clients of 20 addresses."""
    return Crowd(lambda number: connect(proxy, 10 + number % 20), *CROWDS[kind])


def connect(proxy: Proxy, number: int) -> ssl.SSLSocket:
    plain = small_socket()
    context = ssl.create_default_context(cafile=proxy.certificate)
    try:
        plain.settimeout(10)
        plain.bind((f"{proxy.network}.{number}", 0))
        plain.connect(("127.0.0.1", proxy.port))
        return context.wrap_socket(plain, server_hostname="localhost")
    except OSError:
        plain.close()
        raise
