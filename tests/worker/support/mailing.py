"""A running service that sends mail to a sink, and the pages that its mails link to."""

from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import requests

from tests.smtp_sink import Sink
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

SESSIONS = "/settings/sessions"  # a page that needs a session
JSON = {"Content-Type": "application/json"}
BASE_URL = "https://audit.example"  # the name that links must have, whatever requests call us


def new_address() -> str:
    return f"{uuid4().hex}@example.org"


def ask_for_link(system: System, email: str, **options: Any) -> requests.Response:
    """POST /auth/magic-link."""
    body = {"email": email, **options.pop("more", {})}
    return requests.post(f"{system.base_url}/auth/magic-link", json=body, timeout=60, **options)


def wait_for_link(sink: Sink, email: str, seconds: float = 20) -> str:
    """The path and query of the newest link that was mailed to the address."""
    wait_until(lambda: links_to(sink, email), seconds)
    return link_in(sink, email)


def link_in(sink: Sink, email: str) -> str:
    *_, url = links_to(sink, email)
    assert url.startswith(f"{BASE_URL}/auth/verify?")
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def links_to(sink: Sink, email: str) -> list[str]:
    """The sign-in links in the mails to the address, oldest first."""
    texts = [mail.get_body(("plain",)) for mail in sink.mails_to(email)]
    lines = [line for part in texts if part for line in part.get_content().splitlines()]
    return [line for line in lines if "/auth/verify" in line]


def cookies_of(response: requests.Response) -> dict[str, str]:
    """The headers of a browser that keeps the cookies of this answer."""
    pairs = [line.partition(";")[0] for line in set_cookies(response)]
    return {"Cookie": "; ".join(pair for pair in pairs if not pair.endswith("="))}


def set_cookies(response: requests.Response) -> list[str]:
    return list(response.raw.headers.getlist("Set-Cookie"))


def is_new_session(response: requests.Response) -> bool:
    """Whether the answer signs a browser in: a form's cookie alone doesn't."""
    return response.status_code == 200 and "<h1>You're signed in</h1>" in response.text


def confirm(system: System, link: str, **headers: str) -> requests.Response:
    """Press the button that a browser gets that didn't request the link."""
    token = link.partition("token=")[2]
    return post(system, "/auth/verify", {**JSON, **headers}, json={"token": token})


def mail_statuses(system: System) -> dict[str, int]:
    return dict(system.rows("SELECT status, count(*) FROM mails GROUP BY 1"))


def wait_all_sent(system: System, seconds: float) -> None:
    unsent = "SELECT count(*) FROM mails WHERE status <> 'sent'"
    wait_until(lambda: system.rows(unsent)[0][0] == 0, seconds)


def get(system: System, path: str, **headers: str) -> requests.Response:
    url = f"{system.base_url}{path}"
    return requests.get(url, headers=headers, timeout=60, allow_redirects=False)


def post(system: System, path: str, headers: dict[str, str], **more: Any) -> requests.Response:
    url = f"{system.base_url}{path}"
    return requests.post(url, headers=headers, timeout=60, allow_redirects=False, **more)


def sign_in(system: System, sink: Sink, email: str | None = None) -> dict[str, str]:
    """The headers of a browser that was signed in by mail."""
    email = email or new_address()
    before = len(links_to(sink, email))
    asked = ask_for_link(system, email)
    assert asked.status_code == 200
    wait_for_links(sink, email, before + 1)
    return cookies_of(get(system, wait_for_link(sink, email), **cookies_of(asked)))


def wait_for_links(sink: Sink, email: str, count: int) -> None:
    wait_until(lambda: len(links_to(sink, email)) >= count, 20)


def is_signed_in(system: System, headers: dict[str, str]) -> bool:
    return get(system, SESSIONS, **headers).status_code == 200


def count_sessions(system: System, email: str) -> int:
    query = "SELECT count(*) FROM sessions JOIN accounts a ON a.id = account_id WHERE email = :e"
    return int(system.rows(query, e=email)[0][0])
