"""Mailed links and redirects after sign-in stay on this site, whatever a request contains."""

import http.client
from urllib.parse import urlsplit

import pytest
import requests

from tests.smtp_sink import Sink
from tests.worker.support.mailing import (
    JSON,
    ask_for_link,
    cookies_of,
    get,
    new_address,
    wait_for_link,
    wait_for_links,
)
from tests.worker.support.promises import Note, at_a_quarter, in_full_only
from tests.worker.support.system import System


@pytest.fixture
def system(mailing_system: System) -> System:
    return mailing_system


HOSTS = (
    "evil.example",
    "evil.example:8000",
    "audit.example.evil.example",
    "audit.example@evil.example",
    "audit.example:80@evil.example",
    "evil.example/audit.example",
    "evil.example?audit.example",
    "evil.example#audit.example",
    "127.0.0.1",
    "[::1]",
)


@at_a_quarter
def test_mailed_links_stay_home(system: System, sink: Sink, note: Note, share: float) -> None:
    """Twenty Host and X-Forwarded-Host values; the mail may not go out, but never leads away."""
    asked, losses, hosts = list[str](), 0, HOSTS[:: round(1 / share)]
    for host in hosts:
        for headers in ({"Host": host}, {"Host": "audit.example", "X-Forwarded-Host": host}):
            email = new_address()
            forged = {**headers, "X-Forwarded-Proto": "gopher", "X-Forwarded-Prefix": "/evil"}
            forged["Forwarded"] = f"host={host}"
            status, text = _post_as(system, f'{{"email": "{email}"}}', forged)
            losses += status not in (200, 400) or "evil" in text
            asked += [email] if status == 200 else []
    for email in asked:
        wait_for_links(sink, email, 1)  # `wait_for_link` checks whose link it is
        link = wait_for_link(sink, email)
        losses += "evil" in link or "evil" in str(sink.mails_to(email)[0])
    note("24 mailed links ignore 20 Host and X-Forwarded-Host values", 2 * len(hosts), losses)
    assert len(asked) >= len(hosts)


def _post_as(system: System, body: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(system.base_url).netloc, timeout=60)
    connection.putrequest("POST", "/auth/magic-link", skip_host=True)
    for name, value in {**headers, **JSON, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode())
    answer = connection.getresponse()
    seen = answer.status, f"{answer.headers}{answer.read().decode()}"
    connection.close()
    return seen


@in_full_only
def test_sign_in_leads_on_to_this_site_only(
    system: System, sink: Sink, note: Note, share: float
) -> None:
    """By default, `test_local_paths.py` tries the paths."""
    losses, paths = 0, FOREIGN_PATHS[:: round(1 / share)]
    for text in paths:
        email = new_address()
        asked = ask_for_link(system, email, more={"next": text})
        assert asked.status_code == 200
        page = get(system, wait_for_link(sink, email), **cookies_of(asked))
        losses += 'content="0; url=/dashboard"' not in page.text or "Location" in page.headers
        form = requests.get(f"{system.base_url}/sign-in", params={"next": text}, timeout=60)
        losses += 'name="next"' in form.text
    note("24 sign-in leads on to no foreign `next`", len(paths), losses)


FOREIGN_PATHS = (
    "//e.example", "///e.example", "/\\e.example", "\\/e.example", "\\\\e.example", "/\t/e.example",
    "\t//e.example", "/\n/e.example", "/\r\n/e.example", " //e.example", "%09//e.example",
    "/%09/e.example", "/%2F/e.example", "/%5Ce.example", "https://e.example", "https:e.example",
    "javascript:alert(1)", "data:text/html,x", "e.example", "@e.example", "/\u2028/e.example",
)  # fmt: skip
