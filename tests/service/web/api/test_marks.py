"""/api/v1/marks: what a CI system notes on the days of an account's charts."""

from collections.abc import Mapping

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service.models.base import utc_now
from service.web.auth.scopes import SCOPES
from tests.cases import each_case
from tests.service.support.scenes import Tenant

MARKS = "/api/v1/marks"


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


def _list(client: FlaskClient, headers: Mapping[str, str], query: str = "") -> list[str]:
    found = client.get(f"{MARKS}{query}", headers=headers).get_json()["marks"]
    return [f"{mark['day']} {mark['words']}" for mark in found]


def test_a_deploy_is_marked_listed_and_removed(client: FlaskClient, tenant: Tenant) -> None:
    sent = {"words": "Deploy 1.4", "day": "2026-03-14"}
    added = client.post(MARKS, headers=tenant.writes, json=sent)
    assert (added.status_code, added.get_json()["words"]) == (201, "Deploy 1.4")
    client.post(MARKS, headers=tenant.writes, json={"words": " Deploy\t1.3 ", "day": "2026-03-01"})
    assert _list(client, tenant.reads) == ["2026-03-01 Deploy 1.3", "2026-03-14 Deploy 1.4"]
    assert _list(client, tenant.reads, "?from=2026-03-02&to=2026-03-14") == [
        "2026-03-14 Deploy 1.4"
    ]
    address = f"{MARKS}/{added.get_json()['id']}"
    removed = client.delete(address, headers=tenant.writes)
    assert removed.get_json() == {"id": added.get_json()["id"]}, "a key reads nothing"
    assert client.delete(address, headers=tenant.writes).status_code == 404
    assert _list(client, tenant.reads) == ["2026-03-01 Deploy 1.3"]


def test_a_mark_without_a_day_is_of_today_and_a_repeated_one_is_the_same(
    client: FlaskClient, tenant: Tenant
) -> None:
    first, second = (
        client.post(MARKS, headers=tenant.writes, json={"words": "Deploy"}).get_json()
        for _ in range(2)
    )
    assert first == second
    assert first["day"] == str(utc_now().date())


@each_case(
    "body",
    [{}, {"words": ""}, {"words": " "}, {"words": "x" * 61}, {"words": "x", "day": "soon"},
     {"words": "x", "more": 1}],
)  # fmt: skip
def test_a_mark_needs_words_and_a_day_that_exists(
    client: FlaskClient, tenant: Tenant, body: Mapping[str, str]
) -> None:
    assert client.post(MARKS, headers=tenant.writes, json=body).status_code == 422
    assert _list(client, tenant.reads) == []


def test_no_scope_writes() -> None:
    assert SCOPES == ("read:audits", "read:findings")
