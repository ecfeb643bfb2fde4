"""Over https the session's cookie has a name that no other host can set; old names end."""

from collections.abc import Callable

from flask import Flask

from tests.service.support.scenes import Sessions, sign_in

HTTPS = "https://audit.example"
OLD, NEW = "tallystick_session", "__Host-tallystick_session"


def test_over_https_the_session_has_the_prefixed_cookie_and_the_old_name_signs_nobody_in(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    value = sign_in(sessions, "ada@example.org")["Cookie"].partition("=")[2]
    client = share_app(base_url=HTTPS).test_client(use_cookies=False)
    assert client.get("/settings", headers={"Cookie": f"{NEW}={value}"}).status_code == 200
    tossed = client.get("/settings", headers={"Cookie": f"{OLD}={value}"})
    assert tossed.status_code == 303
    [ended] = [one for one in tossed.headers.getlist("Set-Cookie") if one.startswith(f"{OLD}=;")]
    assert "Max-Age=0" in ended
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(ended.split("; "))


def test_a_cookie_that_another_host_set_beside_the_session_changes_nothing(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    victim, attacker = (
        sign_in(sessions, f"{name}@example.org")["Cookie"].partition("=")[2]
        for name in ("ada", "eve")
    )
    client = share_app(base_url=HTTPS).test_client(use_cookies=False)
    page = client.get("/settings", headers={"Cookie": f"{OLD}={attacker}; {NEW}={victim}"})
    assert "ada@example.org" in page.get_data(as_text=True)


def test_on_a_loopback_address_the_name_is_plain(app: Flask, sessions: Sessions) -> None:
    headers = sign_in(sessions, "ada@example.org")
    assert headers["Cookie"].startswith(f"{OLD}=")
    answer = app.test_client(use_cookies=False).get("/settings", headers=headers)
    assert answer.status_code == 200
    assert not any(one.startswith(f"{OLD}=;") for one in answer.headers.getlist("Set-Cookie"))


def test_the_reference_names_the_cookie_that_is_used(share_app: Callable[..., Flask]) -> None:
    document = share_app(base_url=HTTPS).test_client().get("/openapi.json").get_json()
    assert document["components"]["securitySchemes"]["session"]["name"] == NEW
