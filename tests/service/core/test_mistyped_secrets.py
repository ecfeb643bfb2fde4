"""A secret of any kind with one changed character is rejected without a query."""

import string
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.core import tokens
from service.core.tokens import Kind
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.web_sessions import SECRET_FIELD
from tests.service.support.oauth_flow import TOKEN, Application
from tests.service.support.scenes import AUDITS, INGEST, bearer, signed_cookie
from tests.worker.support.promises import Note, at_a_fortieth, scaled

TRIES: Final = 1_000
ALPHABET: Final = string.digits + string.ascii_letters + "_-"
Present = Callable[[FlaskClient, Application, str], TestResponse]


def _redeem(client: FlaskClient, application: Application, **changed: str) -> TestResponse:
    form = {**application.redeems(tokens.mint(Kind.AUTHORIZATION_CODE)), **changed}
    return client.post(TOKEN, data=form)


def _show_cookie(client: FlaskClient, _: Application, secret: str) -> TestResponse:
    client.set_cookie(SESSION_COOKIE, signed_cookie({SECRET_FIELD: secret}), secure=True)
    return client.get("/dashboard", base_url="https://localhost")


def _show_pending(client: FlaskClient, _: Application, secret: str) -> TestResponse:
    client.set_cookie(SESSION_COOKIE, signed_cookie({"pending": secret}), secure=True)
    return client.get("/sign-in/passkey", base_url="https://localhost")


# How each kind is presented, and the status of its refusal.
PRESENTED: Final[dict[Kind, tuple[Present, int]]] = {
    Kind.INGEST_KEY: (lambda client, _, key: client.post(INGEST, headers=bearer(key)), 401),
    Kind.READ_TOKEN: (lambda client, _, token: client.get(AUDITS, headers=bearer(token)), 401),
    Kind.ACCESS_TOKEN: (lambda client, _, token: client.get(AUDITS, headers=bearer(token)), 401),
    Kind.CLIENT_ID: (lambda client, one, own_id: _redeem(client, one, client_id=own_id), 401),
    Kind.CLIENT_SECRET: (lambda client, one, own: _redeem(client, one, client_secret=own), 401),
    Kind.AUTHORIZATION_CODE: (lambda client, one, code: _redeem(client, one, code=code), 400),
    Kind.MAGIC_LINK: (
        lambda client, _, link: client.get("/auth/verify", query_string={"token": link}),
        422,
    ),
    Kind.WEB_SESSION: (_show_cookie, 303),
    Kind.PENDING_SIGN_IN: (_show_pending, 303),
}

TABLES: Final = {
    Kind.INGEST_KEY: "ingest_keys",
    Kind.READ_TOKEN: "read_tokens",
    Kind.ACCESS_TOKEN: "oauth_tokens",
    Kind.CLIENT_ID: "oauth_applications",
    Kind.CLIENT_SECRET: "oauth_applications",
    Kind.AUTHORIZATION_CODE: "oauth_codes",
    Kind.MAGIC_LINK: "magic_links",
    Kind.WEB_SESSION: "sessions",
    Kind.PENDING_SIGN_IN: "pending_sign_ins",
}


@pytest.fixture
def secrets_of(application: Application) -> Callable[[Kind], str]:
    """A good secret of a kind; of an application its own, so that the rest of the call is good."""
    own = {Kind.CLIENT_ID: application.client_id, Kind.CLIENT_SECRET: application.secret}
    return lambda kind: own.get(kind) or tokens.mint(kind)


def _mistyped(secret: str, kind: Kind, count: int) -> Iterator[str]:
    """So many, spread over its characters; of another prefix it would be another kind's."""
    every = [
        secret[:at] + letter + secret[at + 1 :]
        for at, letter in product(range(len(kind), len(secret)), ALPHABET)
        if letter != secret[at]
    ]
    assert len(every) > 2 * count
    yield from every[:: len(every) // count][:count]


def test_every_kind_of_secret_is_tried() -> None:
    # A browser's own secret opens nothing: with a mistyped one it is an unknown browser.
    assert set(PRESENTED) == set(Kind) - {Kind.BROWSER}


@at_a_fortieth
@pytest.mark.parametrize("kind", PRESENTED)
def test_a_mistyped_secret_is_rejected_without_a_query(
    client: FlaskClient,
    application: Application,
    secrets_of: Callable[[Kind], str],
    statements: list[str],
    note: Note,
    *,
    kind: Kind,
    share: float,
) -> None:
    present, status = PRESENTED[kind]
    tries, taken = scaled(TRIES, share), 0
    for mistyped in _mistyped(secrets_of(kind), kind, tries):
        taken += present(client, application, mistyped).status_code != status
    # Who redeems a code is looked up first.
    is_code = kind == Kind.AUTHORIZATION_CODE
    assert [one for one in statements if not (is_code and "FROM oauth_applications" in one)] == []
    note(f"27 {kind} with one character changed is refused without a query", tries, taken)
    # A well-formed one is looked up, so a query would have been seen.
    present(client, application, secrets_of(kind))
    assert any(TABLES[kind] in one for one in statements)
