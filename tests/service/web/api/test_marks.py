"""/api/v1/marks: what a CI system notes on the days of an account's charts."""

from collections.abc import Mapping

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from service.models.access.credentials import ReadToken
from service.models.base import utc_now
from service.web.auth.scopes import READ_AUDITS, WRITE_MARKS
from tests.service.support.scenes import Tenant, add_tenant, bearer

MARKS = "/api/v1/marks"
Sessions = sessionmaker[Session]


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def writes(tenant: Tenant, sessions: Sessions) -> Mapping[str, str]:
    return _mint(sessions, tenant.account_id)


def _mint(sessions: Sessions, account_id: str) -> Mapping[str, str]:
    with sessions() as session:
        row, token = ReadToken.minted(account_id, scopes=(READ_AUDITS, WRITE_MARKS))
        session.add(row)
        session.commit()
    return bearer(token)


def _list(client: FlaskClient, headers: Mapping[str, str], query: str = "") -> list[str]:
    found = client.get(f"{MARKS}{query}", headers=headers).get_json()["marks"]
    return [f"{mark['day']} {mark['words']}" for mark in found]


def test_a_deploy_is_marked_listed_and_removed(
    client: FlaskClient, writes: Mapping[str, str]
) -> None:
    sent = {"words": "Deploy 1.4", "day": "2026-03-14"}
    added = client.post(MARKS, headers=writes, json=sent)
    assert (added.status_code, added.get_json()["words"]) == (201, "Deploy 1.4")
    client.post(MARKS, headers=writes, json={"words": " Deploy\t1.3 ", "day": "2026-03-01"})
    assert _list(client, writes) == ["2026-03-01 Deploy 1.3", "2026-03-14 Deploy 1.4"]
    assert _list(client, writes, "?from=2026-03-02&to=2026-03-14") == ["2026-03-14 Deploy 1.4"]
    address = f"{MARKS}/{added.get_json()['id']}"
    assert client.delete(address, headers=writes).status_code == 200
    assert client.delete(address, headers=writes).status_code == 404
    assert _list(client, writes) == ["2026-03-01 Deploy 1.3"]


def test_a_mark_without_a_day_is_of_today_and_a_repeated_one_is_the_same(
    client: FlaskClient, writes: Mapping[str, str]
) -> None:
    first, second = (
        client.post(MARKS, headers=writes, json={"words": "Deploy"}).get_json() for _ in range(2)
    )
    assert first == second
    assert first["day"] == str(utc_now().date())


@pytest.mark.parametrize(
    "body",
    [{}, {"words": ""}, {"words": " "}, {"words": "x" * 61}, {"words": "x", "day": "soon"},
     {"words": "x", "more": 1}],
)  # fmt: skip
def test_a_mark_needs_words_and_a_day_that_exists(
    client: FlaskClient, writes: Mapping[str, str], body: Mapping[str, str]
) -> None:
    assert client.post(MARKS, headers=writes, json=body).status_code == 422
    assert _list(client, writes) == []


def test_a_token_that_only_reads_marks_nothing_and_others_marks_stay(
    client: FlaskClient, tenant: Tenant, writes: Mapping[str, str], sessions: Sessions
) -> None:
    refused = client.post(MARKS, headers=tenant.reads, json={"words": "Deploy"})
    assert refused.status_code == 403
    assert "write:marks" in refused.headers["WWW-Authenticate"]
    added = client.post(MARKS, headers=writes, json={"words": "Deploy"}).get_json()
    others = _mint(sessions, add_tenant(sessions).account_id)
    assert client.delete(f"{MARKS}/{added['id']}", headers=others).status_code == 404
    assert _list(client, others) == []
