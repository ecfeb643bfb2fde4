"""Passkeys as a second factor: what signs in, what doesn't, and what each attempt leaves behind."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select, update
from werkzeug.test import TestResponse

from service.models import Mail, Passkey, PendingSignIn, RecoveryCode, SecurityEvent, WebSession
from service.models.base import utc_now
from tests.service.support.authenticator import Authenticator, challenge_in, with_challenge
from tests.service.support.browser import Browser
from tests.service.support.scenes import Sessions, add_link

EMAIL = "ada@example.org"
STEP, PAGE, ADD = "/sign-in/passkey", "/settings/passkeys", "/settings/passkeys/add"
_CODE = re.compile(r"\b(?:[2-9a-z]{4}-){5}[2-9a-z]{4}\b")


def options_in(page: str) -> str:
    found = re.search(r'data-options="([^"]+)"', page)
    assert found is not None, page
    return unescape(found[1])


def add_passkey(owner: Browser, key: Authenticator, name: str = "Laptop") -> TestResponse:
    """Add the key as its owner's browser does."""
    page = owner.get(ADD)
    [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', page)
    form = {"csrf_token": token, "name": name, "credential": key.create(options_in(page))}
    return owner.client.post(ADD, data=form)


@dataclass
class Protected:
    """An account with a passkey; `owner` is signed in, `codes` are its recovery codes."""

    owner: Browser
    key: Authenticator
    codes: list[str]


@pytest.fixture
def protected(app: Flask, sessions: Sessions) -> Protected:
    owner, key = Browser(app, sessions, EMAIL), Authenticator()
    shown = add_passkey(owner, key)
    assert shown.status_code == 200, shown.get_data(as_text=True)
    return Protected(owner, key, _CODE.findall(shown.get_data(as_text=True)))


@dataclass
class Visitor:
    """A browser that has opened a sign-in link and is asked for the passkey."""

    client: FlaskClient
    page: str

    @property
    def options(self) -> str:
        return options_in(self.page)

    def send(self, **form: str) -> TestResponse:
        [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', self.page)
        return self.client.post(STEP, data={"csrf_token": token, **form})

    def is_signed_in(self) -> bool:
        return self.client.get("/dashboard").status_code == 200


@pytest.fixture
def visit(app: Flask, sessions: Sessions) -> Callable[[], Visitor]:
    def open_link() -> Visitor:
        client = app.test_client()
        used = client.post("/auth/verify", json={"token": add_link(sessions, EMAIL)})
        assert used.status_code == 200, used.get_data(as_text=True)
        return Visitor(client, client.get(STEP).get_data(as_text=True))

    return open_link


Visit = Callable[[], Visitor]


def count(sessions: Sessions, table: type) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_link_and_a_passkey_sign_in_and_an_answer_works_once(
    protected: Protected, visit: Visit
) -> None:
    visitor = visit()
    assert not visitor.is_signed_in()
    assert "Never" in protected.owner.get(PAGE)
    answer = protected.key.get(visitor.options)
    sent = visitor.send(credential=answer)
    assert (sent.status_code, sent.location) == (303, "/dashboard")
    assert visitor.is_signed_in()
    page = protected.owner.get(PAGE)
    assert "Laptop" in page
    assert "Never" not in page
    assert "a sign-in link alone isn't enough" in page
    assert "Each works once." in page
    thief = visit()
    assert thief.send(credential=answer).status_code == 422
    assert not thief.is_signed_in()


# The first five by default.
WRONG: dict[str, Callable[[str, Authenticator], str]] = {
    "another challenge": lambda options, key: key.get(with_challenge(options, b"x" * 64)),
    "another origin": lambda options, key: replace(
        key, origin="https://tallystick.example.evil"
    ).get(options),
    "another key": lambda options, key: replace(
        Authenticator(), credential_id=key.credential_id, count=9
    ).get(options),
    "a counter that goes back": lambda options, key: replace(key, count=0, step=0).get(options),
    "nothing": lambda _options, _key: "{}",
    "another site": lambda options, key: replace(key, host="evil.example").get(options),
    "an unknown key": lambda options, _key: Authenticator().get(options),
    "a registration": lambda options, key: key.create(options),
    "no JSON": lambda _options, _key: "[" * 9000,
}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(name, marks=pytest.mark.stress if number > 4 else ())
        for number, name in enumerate(WRONG)
    ],
)
def test_a_wrong_answer_does_not_sign_in(
    protected: Protected, visit: Visit, sessions: Sessions, wrong: str
) -> None:
    first = visit()
    first.send(credential=protected.key.get(first.options))
    before, visitor = count(sessions, WebSession), visit()
    refused = visitor.send(credential=WRONG[wrong](visitor.options, protected.key))
    assert refused.status_code == 422
    assert not visitor.is_signed_in()
    assert count(sessions, WebSession) == before
    with sessions() as session:
        kinds = session.scalars(select(SecurityEvent.kind).order_by(SecurityEvent.id)).all()
    assert kinds[-1] == "passkey_refused"


def test_each_wrong_answer_gets_a_new_challenge_and_the_fifth_ends_the_sign_in(
    protected: Protected, visit: Visit
) -> None:
    visitor, challenges = visit(), set()
    for _ in range(5):
        challenges.add(challenge_in(visitor.options))
        visitor.send(credential="{}")
        page = visitor.client.get(STEP)
        visitor.page = page.get_data(as_text=True) if page.status_code == 200 else visitor.page
    assert len(challenges) == 5
    assert visitor.client.get(STEP).location == "/sign-in"
    late = visitor.send(credential=protected.key.get(visitor.options))
    assert late.location == "/sign-in"
    assert not visitor.is_signed_in()


def test_a_waiting_sign_in_expires(protected: Protected, visit: Visit, sessions: Sessions) -> None:
    visitor = visit()
    with sessions() as session:
        session.execute(update(PendingSignIn).values(expires_at=utc_now() - timedelta(seconds=1)))
        session.commit()
    answer = visitor.send(credential=protected.key.get(visitor.options))
    assert answer.location == "/sign-in"
    assert not visitor.is_signed_in()


def test_another_browser_can_not_answer(app: Flask, protected: Protected, visit: Visit) -> None:
    visitor, other = visit(), visit()
    swapped = Visitor(other.client, other.page)
    refused = swapped.send(credential=protected.key.get(visitor.options))
    assert refused.status_code == 422
    assert app.test_client().get(STEP).location == "/sign-in"


def test_a_recovery_code_replaces_a_passkey_once(
    protected: Protected, visit: Visit, sessions: Sessions
) -> None:
    assert len(set(protected.codes)) == 10
    visitor = visit()
    typed = protected.codes[0].upper().replace("-", " ")
    assert visitor.send(code=typed).status_code == 303
    assert visitor.is_signed_in()
    assert count(sessions, RecoveryCode) == 9
    again = visit()
    assert again.send(code=protected.codes[0]).status_code == 422
    assert not again.is_signed_in()
    with sessions() as session:
        notices = session.scalars(select(Mail.parameters).where(Mail.kind == "security_notice"))
        assert "recovery_code_used" in [notice["event"] for notice in notices]


def test_codes_are_stored_as_hashes_and_new_ones_replace_them(
    protected: Protected, visit: Visit, sessions: Sessions
) -> None:
    with sessions() as session:
        stored = session.scalars(select(RecoveryCode.code_hash)).all()
    letters = protected.codes[0].replace("-", "").encode()
    assert all(len(code_hash) == 32 and letters not in code_hash for code_hash in stored)
    shown = protected.owner.post(PAGE, f"{PAGE}/recovery-codes").get_data(as_text=True)
    fresh = _CODE.findall(shown)
    assert len(fresh) == 10
    assert visit().send(code=protected.codes[1]).status_code == 422
    assert visit().send(code=fresh[0]).status_code == 303


def test_a_removed_key_does_not_sign_in(protected: Protected, visit: Visit) -> None:
    second = Authenticator()
    assert add_passkey(protected.owner, second, "Phone").location == PAGE
    removed = re.findall(rf'action="({PAGE}/[^"/]+/remove)"', protected.owner.get(PAGE))
    protected.owner.post(PAGE, removed[0])
    visitor = visit()
    assert visitor.send(credential=protected.key.get(visitor.options)).status_code == 422
    visitor = visit()
    assert visitor.send(credential=second.get(visitor.options)).status_code == 303


def test_without_the_last_passkey_a_link_signs_in_again(
    protected: Protected, app: Flask, sessions: Sessions
) -> None:
    [action] = re.findall(rf'action="({PAGE}/[^"/]+/remove)"', protected.owner.get(PAGE))
    protected.owner.post(PAGE, action)
    assert (count(sessions, Passkey), count(sessions, RecoveryCode)) == (0, 0)
    client = app.test_client()
    client.post("/auth/verify", json={"token": add_link(sessions, EMAIL)})
    assert client.get("/dashboard").status_code == 200


def test_changing_passkeys_needs_a_recent_sign_in(protected: Protected, sessions: Sessions) -> None:
    page = protected.owner.get(PAGE)
    with sessions() as session:
        session.execute(update(WebSession).values(created_at=utc_now() - timedelta(minutes=16)))
        session.commit()
    assert protected.owner.client.get(ADD).location.startswith("/sign-in/confirm")
    for action in re.findall(rf'action="({PAGE}/[^"]+)"', page):
        assert protected.owner.post(PAGE, action).location.startswith("/sign-in/confirm")
    assert (count(sessions, Passkey), count(sessions, RecoveryCode)) == (1, 10)


def test_a_registration_answers_its_own_question_once(app: Flask, sessions: Sessions) -> None:
    owner, key = Browser(app, sessions, EMAIL), Authenticator()
    page = owner.get(ADD)
    [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', page)
    evil = replace(key, origin="https://tallystick.example.evil")
    old = with_challenge(options_in(page), b"x" * 64)
    for answer in (key.create(old), evil.create(options_in(page)), "{}", ""):
        refused = owner.client.post(ADD, data={"csrf_token": token, "credential": answer})
        assert refused.status_code == 422
    late = owner.client.post(
        ADD, data={"csrf_token": token, "credential": key.create(options_in(page))}
    )
    assert late.status_code == 422
    assert count(sessions, Passkey) == 0


def test_a_passkey_belongs_to_one_account(
    protected: Protected, app: Flask, sessions: Sessions
) -> None:
    other = Browser(app, sessions, "eve@example.org")
    assert add_passkey(other, protected.key).status_code == 422
    assert count(sessions, Passkey) == 1
