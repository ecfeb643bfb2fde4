"""A running service that sends mail to a sink, and what its mails lead to."""

from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import requests

from tests.smtp_sink import Sink
from tests.worker.system import System
from tests.worker.waiting import wait_until

BASE_URL = "https://audit.example"  # the name that links must have, whatever requests call us


def new_address() -> str:
    return f"{uuid4().hex}@example.org"


def ask_for_link(system: System, email: str, **options: Any) -> requests.Response:
    """POST /auth/magic-link."""
    body = {"email": email, **options.pop("more", {})}
    return requests.post(f"{system.base_url}/auth/magic-link", json=body, timeout=30, **options)


def wait_for_link(sink: Sink, email: str, seconds: float = 20) -> str:
    """The path and query of the newest link that was mailed to the address."""
    wait_until(lambda: sink.mails_to(email), seconds)
    return link_in(sink, email)


def link_in(sink: Sink, email: str) -> str:
    part = sink.mails_to(email)[-1].get_body(("plain",))
    assert part is not None
    [url] = [line for line in part.get_content().splitlines() if "/auth/verify" in line]
    assert url.startswith(f"{BASE_URL}/auth/verify?")
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def cookies_of(response: requests.Response) -> dict[str, str]:
    """The headers of a browser that keeps the cookie of this answer."""
    cookie = response.headers["Set-Cookie"].partition(";")[0]
    return {"Cookie": cookie}


def mail_statuses(system: System) -> dict[str, int]:
    return dict(system.rows("SELECT status, count(*) FROM mails GROUP BY 1"))


def wait_all_sent(system: System, seconds: float) -> None:
    unsent = "SELECT count(*) FROM mails WHERE status <> 'sent'"
    wait_until(lambda: system.rows(unsent)[0][0] == 0, seconds)
