"""/settings/activity: what happened in the account, in its log and in the metrics."""

import io
import json

from flask import Flask

from service.core.telemetry.counters import REGISTRY
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import AUDITS, Sessions, add_link, bearer

ACTIVITY = "/settings/activity"


def _counted(kind: str) -> float:
    return REGISTRY.get_sample_value("tallystick_security_events_total", {"kind": kind}) or 0


def test_minting_and_revoking_are_events_in_the_page_the_log_and_the_counters(
    ada: Browser, log: io.StringIO
) -> None:
    before = {kind: _counted(kind) for kind in ("token_created", "token_revoked")}
    ada.post("/developer", "/developer/read-tokens", scope="read:audits", label="secret plan")
    [action] = {
        part.partition('"')[0]
        for part in ada.get("/developer").split('action="')
        if part.startswith("/developer/read-tokens/")
    }
    assert ada.post("/developer", action).status_code == 303
    page = words_of(ada.get(ACTIVITY))
    assert "Read token created rt_" in page
    assert page.index("Read token revoked") < page.index("Read token created")
    assert "secret plan" not in page
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    events = [line for line in lines if line["event"] == "security_event"]
    assert [line["kind"] for line in events] == ["token_created", "token_revoked"]
    assert {line["account_id"] for line in events} == {ada.account_id}
    assert {kind: _counted(kind) - count for kind, count in before.items()} == dict.fromkeys(
        before, 1
    )


def test_refusals_are_events(
    app: Flask, ada: Browser, sessions: Sessions, log: io.StringIO
) -> None:
    token = add_link(sessions, ada.email)
    for status in (200, 422):
        answer = app.test_client().post("/auth/verify", json={"token": token})
        assert answer.status_code == status
    app.test_client().get(AUDITS, headers=bearer("rt_" + "0" * 38))
    forged = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert ada.client.post("/settings/sessions/revoke-others", headers=forged).status_code == 403
    page = words_of(ada.get(ACTIVITY))
    for words in ("Signed in", "Sign-in link rejected", "Blocked a request from another site"):
        assert words in page
    kinds = [json.loads(line).get("kind") for line in log.getvalue().splitlines()]
    expected = ["sign_in", "sign_in_refused", "credential_refused", "cross_site_refused"]
    assert [kind for kind in kinds if kind] == expected


def test_the_text_of_a_user_agent_is_not_shown(app: Flask, ada: Browser) -> None:
    hostile = {"User-Agent": "Your account is locked: https://evil.example <script>"}
    page = ada.get("/developer")
    csrf = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    form = {"csrf_token": csrf, "scope": "read:audits"}
    ada.client.post("/developer/read-tokens", data=form, headers=hostile)
    assert "Unknown browser" in ada.get(ACTIVITY)
    assert "evil" not in ada.get(ACTIVITY)
