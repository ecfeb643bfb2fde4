"""/developer: create, list and revoke keys and tokens; each secret is shown once."""

import io
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.core.tokens import Kind, find_hash
from service.models import IngestKey, ReadToken, Subscription
from service.models.access.credentials import MAX_READ_TOKENS
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.browser import Browser, codes_of, words_of
from tests.service.support.scenes import AUDITS, INGEST, Sessions, batch, bearer

HOME, KEYS, TOKENS = "/developer", "/developer/ingest-keys", "/developer/read-tokens"
MakeBrowser = Callable[..., Browser]


@pytest.fixture
def make_browser(app: Flask, sessions: Sessions) -> MakeBrowser:
    def make(email: str = "ada@example.org", plan: str | None = "pro") -> Browser:
        browser = Browser(app, sessions, email)
        if plan is not None:
            with sessions() as session:
                paid = Subscription(
                    account_id=browser.account_id, plan=plan, status="active", provider="comp"
                )
                session.add(paid)
                session.commit()
        return browser

    return make


def _secret(page: str, kind: Kind) -> str:
    secret: str
    [secret] = {one for code in codes_of(page) for one in re.findall(rf"{kind}\w{{38}}", code)}
    assert find_hash(kind, secret)
    return secret


def test_a_key_is_minted_shown_once_used_and_revoked(
    make_browser: MakeBrowser, db_session: Session
) -> None:
    browser = make_browser()
    answer = browser.post(HOME, KEYS, label=" checkout\n service ")
    page = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    secret = _secret(page, Kind.INGEST_KEY)
    install, dsn, *_ = codes_of(page)
    assert install == "pip install --index-url http://localhost:8000/client/ tallystick"
    assert dsn == f"SERVICE_DSN=http://{secret}@localhost:8000"
    assert browser.client.post(INGEST, json=batch(), headers=bearer(secret)).status_code == 201

    listed = browser.get(HOME)
    assert secret not in listed
    assert "checkout service" in listed
    row = db_session.scalars(select(IngestKey)).one()
    assert f"<code>{row.prefix}…</code>" in listed
    assert secret.startswith(row.prefix)
    assert row.secret_hash == find_hash(Kind.INGEST_KEY, secret)

    revoked = browser.post(HOME, f"{KEYS}/{row.id}/revoke")
    assert (revoked.status_code, revoked.headers["Location"]) == (303, HOME)
    assert browser.client.post(INGEST, json=batch(), headers=bearer(secret)).status_code == 401
    assert row.prefix not in browser.get(HOME)


def test_the_plan_limits_the_keys_and_the_page_says_what_is_left(make_browser: MakeBrowser) -> None:
    browser = make_browser()
    for used in range(5):
        assert f"{used} of 5 keys in your Pro plan" in words_of(browser.get(HOME))
        assert browser.post(HOME, KEYS, label=f"key {used}").status_code == 200
    full = browser.get(HOME)
    assert f'action="{KEYS}"' not in full
    assert "used all keys in your plan" in full
    refused = browser.act(HOME, KEYS)
    assert refused.status_code == 422
    assert "are in use" in words_of(refused.get_data(as_text=True))


def test_without_a_plan_the_page_says_what_to_do_and_mints_nothing(
    make_browser: MakeBrowser, db_session: Session
) -> None:
    browser = make_browser(plan=None)
    page = browser.get(HOME)
    assert "Ingest keys require a Pro or Team plan" in page
    assert 'href="/billing"' in page
    assert browser.act(HOME, KEYS).status_code == 422
    assert db_session.scalars(select(IngestKey)).all() == []


@pytest.mark.parametrize(
    ("chosen", "statuses"),
    [
        (["read:audits"], (200, 403)),
        (["read:findings"], (403, 404)),
        (["read:audits", "read:findings"], (200, 404)),
    ],
)
def test_a_token_reads_what_was_chosen_until_it_is_revoked(
    make_browser: MakeBrowser, db_session: Session, chosen: list[str], statuses: tuple[int, int]
) -> None:
    browser = make_browser(plan=None)
    answer = browser.post(HOME, TOKENS, label="sheet", scope=chosen)
    assert answer.status_code == 200
    secret = _secret(answer.get_data(as_text=True), Kind.READ_TOKEN)
    paths = (AUDITS, f"{AUDITS}/none/findings")
    reads = [browser.client.get(path, headers=bearer(secret)).status_code for path in paths]
    assert tuple(reads) == statuses
    row = db_session.scalars(select(ReadToken)).one()
    assert row.scopes == chosen
    assert secret not in browser.get(HOME)
    assert browser.post(HOME, f"{TOKENS}/{row.id}/revoke").status_code == 303
    assert browser.client.get(AUDITS, headers=bearer(secret)).status_code == 401


@each_case("scopes", [[], ["write:audits"], ["read:audits "]])
def test_a_token_without_a_known_scope_is_not_minted(
    make_browser: MakeBrowser, db_session: Session, scopes: list[str]
) -> None:
    browser = make_browser(plan=None)
    answer = browser.post(HOME, TOKENS, label="mine", scope=scopes)
    assert answer.status_code == 422
    assert "Select at least one scope" in answer.get_data(as_text=True)
    assert 'value="mine"' in answer.get_data(as_text=True)
    assert db_session.scalars(select(ReadToken)).all() == []


def test_tokens_are_bounded(make_browser: MakeBrowser, db_session: Session) -> None:
    browser = make_browser(plan=None)
    for _ in range(MAX_READ_TOKENS):
        token, _secret = ReadToken.minted(browser.account_id, scopes=["read:audits"])
        db_session.add(token)
    db_session.commit()
    answer = browser.post(HOME, TOKENS, scope=["read:audits"])
    assert answer.status_code == 422
    assert "Revoke one first" in answer.get_data(as_text=True)
    other = make_browser("grace@example.org", plan=None)
    assert other.post(HOME, TOKENS, scope=["read:audits"]).status_code == 200


def test_a_label_that_is_too_long_is_rejected_and_kept_in_its_field(
    make_browser: MakeBrowser,
) -> None:
    browser = make_browser()
    for action in (KEYS, TOKENS):
        answer = browser.post(HOME, action, label="x" * 61, scope=["read:audits"])
        assert answer.status_code == 422
        assert answer.get_data(as_text=True).count("at most 60 characters") == 1
        assert answer.get_data(as_text=True).count(f'value="{"x" * 61}"') == 1


def test_the_last_use_is_shown(make_browser: MakeBrowser, db_session: Session) -> None:
    browser = make_browser()
    browser.post(HOME, KEYS, label="one")
    assert "Never" in browser.get(HOME)
    row = db_session.scalars(select(IngestKey)).one()
    row.last_used_at = utc_now() - timedelta(days=2)
    db_session.commit()
    assert f"{row.last_used_at:%Y-%m-%dT%H:%M:%SZ}" in browser.get(HOME)


def test_secrets_are_in_no_log_line(make_browser: MakeBrowser, log: io.StringIO) -> None:
    browser = make_browser()
    key = _secret(browser.post(HOME, KEYS).get_data(as_text=True), Kind.INGEST_KEY)
    page = browser.post(HOME, TOKENS, scope=["read:audits"]).get_data(as_text=True)
    lines = log.getvalue()
    assert "/developer/ingest-keys" in lines
    assert key not in lines
    assert _secret(page, Kind.READ_TOKEN) not in lines


def test_keys_and_tokens_are_sorted_by_their_own_columns(make_browser: MakeBrowser) -> None:
    browser = make_browser()
    for label in ("beta", "alpha"):
        browser.post(HOME, KEYS, label=f"{label} key")
        browser.post(HOME, TOKENS, label=f"{label} token", scope=["read:audits"])
    page = browser.get(f"{HOME}?sort-keys=label&sort-tokens=-label")
    assert page.index("alpha key") < page.index("beta key")
    assert page.index("beta token") < page.index("alpha token")
    heads = re.findall("<thead>.*?</thead>", page, re.DOTALL)
    hidden = browser.get(f"{HOME}?sort-keys=label&sort-tokens=-label&hide=prefix")
    assert len(re.findall("<th ", "".join(heads))) == hidden.count("<th "), "no column is hidden"
    # A link of one table keeps the order of the other.
    assert "sort-tokens=-label" in re.findall(r'href="([^"]*sort-keys=-label[^"]*)"', page)[0]
