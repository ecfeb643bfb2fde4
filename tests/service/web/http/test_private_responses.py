"""Responses that can hold private data stay out of caches, errors under their addresses too."""

from flask.testing import FlaskClient

from tests.cases import each_case

PAGES = ("/dashboard", "/settings", "/settings/sessions", "/billing", "/upload", "/developer",
         "/developer/applications", "/settings/applications")  # fmt: skip


@each_case("path", PAGES)
def test_a_visitors_page_is_stored_by_no_cache(browser: FlaskClient, path: str) -> None:
    response = browser.get(path)
    assert response.status_code == 200, path
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Referrer-Policy"] == "same-origin"


@each_case(
    ("method", "path", "status"),
    [
        ("GET", "/settings/nothing", 404),
        ("GET", "/dashboard/nothing", 404),
        ("GET", "/audits/0123/nothing", 404),
        ("GET", "/r/0123.abc/nothing", 404),
        ("PUT", "/settings", 405),
        ("PUT", "/r/0123.abc", 405),
        ("GET", "/auth/logout", 405),
        ("GET", "/api/v1/nothing", 404),
    ],
)
def test_an_error_without_a_route_is_stored_by_no_cache(
    browser: FlaskClient, method: str, path: str, status: int
) -> None:
    response = browser.open(path, method=method, headers={"Sec-Fetch-Site": "same-origin"})
    assert response.status_code == status
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Referrer-Policy"] == "no-referrer"


@each_case("path", ["/oauth/token", "/oauth/revoke"])
@each_case("method", ["GET", "PUT", "POST"])
def test_every_error_of_the_token_endpoints_is_stored_by_no_cache(
    client: FlaskClient, method: str, path: str
) -> None:
    response = client.open(path, method=method, data={"grant_type": "nothing"})
    assert response.status_code in (400, 401, 405)
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Pragma"] == "no-cache"
