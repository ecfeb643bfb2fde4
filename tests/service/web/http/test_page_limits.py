"""Pages and report links are limited together, by person or network."""

from collections.abc import Callable

import pytest
from flask import Flask

from service.core.tokens import sign_report
from tests.cases import each_case
from tests.service.support.scenes import SECRET_KEY

LINK = f"/r/{sign_report(SECRET_KEY, 'a' * 32)}"
PAGES = ["/", "/docs", "/sample", "/sign-in", "/client/", LINK, f"{LINK}/pdf", f"{LINK}/json"]


@pytest.fixture
def limited(share_app: Callable[..., Flask]) -> Flask:
    return share_app(page_limit_per_minute=20)


def test_pages_and_links_share_a_limit(limited: Flask) -> None:
    client = limited.test_client(use_cookies=False)
    paths = [PAGES[number % len(PAGES)] for number in range(30)]
    answers = [client.get(path, environ_base={"REMOTE_ADDR": "10.7.0.1"}) for path in paths]
    assert [answer.status_code == 429 for answer in answers] == [False] * 20 + [True] * 10
    refused = answers[-1]
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert "Too Many Requests" in refused.get_data(as_text=True)
    other = client.get("/", environ_base={"REMOTE_ADDR": "10.7.0.2"})
    assert other.status_code == 200


@each_case("path", ["/healthz", "/static/tallystick.css"])
def test_other_paths_have_no_such_limit(limited: Flask, path: str) -> None:
    client = limited.test_client(use_cookies=False)
    for _ in range(30):
        with client.get(path, environ_base={"REMOTE_ADDR": "10.7.0.3"}) as answer:
            assert answer.status_code == 200
