"""/upload: the page, and its form submitted without JavaScript."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from detectors.formats.adapters import adapters
from service.models import Audit
from tests.cases import each_case
from tests.service.support.browser import words_of
from tests.service.support.scenes import AUDITS, Sessions, sign_in
from tests.service.support.uploads import Person, add_person, free_credits, log_file
from tests.service.web.pages.forms import Form, load_form
from tests.service.web.pages.words import words

MakeApp = Callable[..., Flask]

SHOP = {
    "stripe_webhook_secret": "whsec_of_the_tests",
    "stripe_credit_link": "https://pay.example.com/credit",
}


def load(client: FlaskClient, person: Person) -> Form:
    return load_form(client, "/upload", "upload", person.headers)


def send(client: FlaskClient, form: Form, file: bytes, **changed: Any) -> TestResponse:
    """Send the form; `changed` fields replace its own, and None removes a field."""
    fields = {"csrf_token": form.token, "file": (io.BytesIO(file), "usage.jsonl"), **changed}
    fields = {name: value for name, value in fields.items() if value is not None}
    return client.post(
        form.action, data=fields, headers=form.headers, content_type="multipart/form-data"
    )


def count_audits(sessions: Sessions, person: Person) -> int:
    with sessions() as session:
        return session.query(Audit).filter_by(account_id=person.account_id).count()


# The page


def test_a_signed_out_visitor_sees_what_to_upload_and_goes_to_sign_in_and_back(
    client: FlaskClient,
) -> None:
    response = client.get("/upload")
    assert response.status_code == 200
    assert 'href="/sign-in?next=/upload"' in response.get_data(as_text=True)
    assert "prompt_tokens" in words(response)
    assert all(adapter.title in words(response) for adapter in adapters().values())
    assert "<form" not in response.get_data(as_text=True)
    # Logs with text get a hint about scrub.
    assert "tallystick scrub RAW --out usage.jsonl" in words(client.get("/upload"))


@each_case("is_signed_in", [True, False])
def test_the_page_has_a_guide_to_the_export_of_each_tool(
    client: FlaskClient, person: Person, is_signed_in: bool
) -> None:
    page = client.get("/upload", headers=person.headers if is_signed_in else {})
    for tool in ("openai", "anthropic", "litellm", "langfuse", "openrouter", "bedrock"):
        guide = (
            page.get_data(as_text=True).partition(f'id="export-{tool}"')[2].split("</details>")[0]
        )
        assert guide.count("<li>") >= 2
        assert "What's missing: " in guide


def test_each_page_has_its_own_key_and_shows_the_credits(
    client: FlaskClient, person: Person
) -> None:
    forms = [load(client, person) for _ in range(2)]
    assert forms[0].action != forms[1].action
    page = client.get("/upload", headers=person.headers)
    assert "You have 2 credits left." in words(page)
    assert page.headers["Cache-Control"] == "no-store"


def test_without_a_credit_the_page_says_where_to_buy_one(
    share_app: MakeApp, sessions: Sessions
) -> None:
    client, poor = share_app(**SHOP).test_client(use_cookies=False), add_person(sessions)
    page = client.get("/upload", headers=poor.headers)
    assert "You have no credits left." in words(page)
    link = f"https://pay.example.com/credit?client_reference_id={poor.account_id}"
    assert f'href="{link}"' in page.get_data(as_text=True)


def test_where_nothing_is_sold_the_page_names_whom_to_ask_and_its_button_is_off(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    client = share_app(operator_contact="ops@example.org").test_client(use_cookies=False)
    headers = sign_in(sessions, "o'hara@example.org")
    page = client.get("/upload", headers=headers).get_data(as_text=True)
    assert "Ask the operator of this installation: ops@example.org ." in words_of(page)
    assert "Get a credit first." in words_of(page)
    assert re.search('<button type="submit" id="send"[^>]* disabled>', page)


def test_the_page_needs_no_script_and_no_style_of_its_own(
    client: FlaskClient, person: Person
) -> None:
    page = client.get("/upload", headers=person.headers).get_data(as_text=True)
    assert re.search(r"<script(?![^>]*\bsrc=)", page) is None
    assert "<style" not in page
    assert " style=" not in page
    assert re.search(r"\son[a-z]+=", page) is None


# The form


def test_a_file_becomes_an_audit_for_a_credit(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    response = send(client, load(client, person), log_file())
    assert response.status_code == 303
    with sessions() as session:
        audit = session.query(Audit).filter_by(account_id=person.account_id).one()
        assert (audit.source, audit.records) == ("upload", 3)
    assert response.headers["Location"] == f"/audits/{audit.id}"
    assert free_credits(sessions, person) == 1


def test_a_form_that_took_the_last_credit_still_leads_to_its_audit(
    client: FlaskClient, sessions: Sessions
) -> None:
    person = add_person(sessions, credits=1)
    form = load(client, person)
    first, again = (send(client, form, log_file()) for _ in range(2))
    assert first.headers["Location"] == again.headers["Location"]


def test_the_form_and_the_api_know_each_others_keys(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    form = load(client, person)
    sent = send(client, form, log_file())
    replayed = client.post(
        AUDITS,
        data={"file": (io.BytesIO(log_file()), "x")},
        headers={**person.headers, "Idempotency-Key": form.action.partition("key=")[2]},
    )
    assert replayed.status_code == 200
    assert sent.headers["Location"].endswith(replayed.get_json()["audit_id"])


def test_a_rejected_file_is_answered_with_the_form_and_what_was_wrong(
    client: FlaskClient, person: Person, sessions: Sessions, blobs: Path
) -> None:
    response = send(client, load(client, person), log_file(messages=[{"content": "secret words"}]))
    assert response.status_code == 422
    page = words(response)
    assert "Contains fields we never accept (messages) on lines 1" in page
    assert "content is never accepted" in page
    assert "Nothing was stored and no credit was used." in page
    assert "secret words" not in response.get_data(as_text=True)
    assert 'id="upload"' in response.get_data(as_text=True)
    assert free_credits(sessions, person) == 2
    assert not [one for one in blobs.rglob("*") if one.is_file()]


def test_a_rejected_form_can_be_sent_again_as_it_came(client: FlaskClient, person: Person) -> None:
    refused = send(client, load(client, person), b"no log")
    again = re.search(r'action="([^"]+)"', refused.get_data(as_text=True).split('id="upload"')[1])
    assert again is not None
    form = load(client, person)
    accepted = send(client, Form(again[1], form.token, form.headers), log_file())
    assert accepted.status_code == 303


def test_without_a_credit_the_form_is_answered_402_with_where_to_buy_one(
    share_app: MakeApp, sessions: Sessions
) -> None:
    client, poor = share_app(**SHOP).test_client(use_cookies=False), add_person(sessions)
    response = send(client, load(client, poor), log_file())
    assert response.status_code == 402
    assert "You have no credits left." in words(response)
    assert "https://pay.example.com/credit?" in response.get_data(as_text=True)
    assert count_audits(sessions, poor) == 0


def test_a_file_that_is_too_large_is_answered_413_with_the_form(
    share_app: MakeApp, person: Person, sessions: Sessions
) -> None:
    client = share_app(max_upload_bytes=1000).test_client(use_cookies=False)
    response = send(client, load(client, person), log_file(50))
    assert response.status_code == 413
    assert "The file must be at most 1,000 bytes." in words(response)
    assert free_credits(sessions, person) == 2


# Who may send it


@each_case("token", [None, "", "wrong", "x" * 1024, "ü", "of another session"])
def test_a_form_without_its_token_is_rejected_before_its_file_is_read(
    client: FlaskClient, person: Person, sessions: Sessions, token: str | None
) -> None:
    if token == "of another session":
        token = load(client, add_person(sessions, credits=1)).token
    response = send(client, load(client, person), b"no log at all", csrf_token=token)
    assert response.status_code == 403
    assert "This form has expired." in words(response)
    assert count_audits(sessions, person) == 0


@each_case(
    "parts",
    [
        ["file", "csrf_token"],
        ["csrf_token", "csrf_token", "file"],
        ["csrf_token", "note", "file"],
        ["csrf_token", "file", "file"],
        ["csrf_token"],
    ],
)
def test_only_the_token_and_then_the_file_are_accepted(
    client: FlaskClient, person: Person, sessions: Sessions, parts: list[str]
) -> None:
    form = load(client, person)
    heads = {"file": '; filename="a"'}
    values = {"csrf_token": form.token, "file": log_file().decode(), "note": "x"}
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"{heads.get(name, "")}\r\n\r\n'
        f"{values[name]}\r\n"
        for name in parts
    )
    response = client.post(
        form.action,
        data=f"{body}--x--\r\n",
        headers=form.headers,
        content_type="multipart/form-data; boundary=x",
    )
    assert response.status_code in (403, 422)
    assert count_audits(sessions, person) == 0
    assert free_credits(sessions, person) == 2


def test_a_token_that_goes_on_and_on_is_rejected(client: FlaskClient, person: Person) -> None:
    response = send(client, load(client, person), log_file(), csrf_token="x" * 100_000)
    assert response.status_code == 422


def test_the_limit_a_minute_counts_forms_and_api_together(
    share_app: MakeApp, person: Person
) -> None:
    client = share_app(upload_limit_per_minute=3).test_client(use_cookies=False)
    form = load(client, person)
    for _ in range(2):
        assert client.post(AUDITS, headers=person.headers).status_code == 415
    assert send(client, form, b"no log").status_code == 422
    limited = send(client, form, log_file())
    assert limited.status_code == 429
    assert "Too many requests" in limited.text
    assert int(limited.headers["Retry-After"]) > 0
    assert client.post(AUDITS, headers=person.headers).status_code == 429


@each_case("key", ["", "x" * 256, "%0a", "%C3%BC"])
def test_an_invalid_key_is_rejected_with_a_reason(
    client: FlaskClient, person: Person, key: str
) -> None:
    form = load(client, person)
    response = send(client, Form(f"/upload?key={key}", form.token, form.headers), log_file())
    assert response.status_code == 400
