"""Credentials are stored as hashes, checkable offline, and each valid for its own routes only."""

from datetime import timedelta

from flask.testing import FlaskClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import IngestKey, ReadToken
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, INGEST, Tenant, batch, error_of


def test_a_rejection_says_which_credential_was_wanted_and_how_to_send_it(
    client: FlaskClient, tenant: Tenant
) -> None:
    missing = error_of(client.post(INGEST), 401, "unauthorized")
    assert missing == "Send your ingest key in the header `Authorization: Bearer ik_...`."
    other = error_of(client.get(AUDITS, headers=tenant.writes), 401, "unauthorized")
    assert other == "Invalid read token. Use your read token (`rt_...`) here, not your ingest key."
    broken = {"Authorization": f"Bearer {tenant.token[:-1]}"}
    assert "is complete" in error_of(client.get(AUDITS, headers=broken), 401, "unauthorized")
    upload = error_of(client.post(AUDITS, headers=tenant.reads), 401, "unauthorized")
    assert upload == "Sign in to continue. Keys and tokens don't work here."


@each_case("path", [AUDITS, "/oauth/token"])
def test_a_header_with_other_characters_than_ascii_is_refused(
    client: FlaskClient, path: str
) -> None:
    """Werkzeug raises an error for it, which was a 500."""
    data = {"grant_type": "authorization_code", "code": "x"}
    response = client.post(path, data=data, headers={"Authorization": "Basic ä"})
    assert response.status_code == 401, response.text


def test_a_key_costs_one_query_and_no_write_per_request(
    client: FlaskClient, tenant: Tenant, statements: list[str]
) -> None:
    client.post(INGEST, json=batch(), headers=tenant.writes)
    statements.clear()
    assert client.post(INGEST, json=batch(), headers=tenant.writes).status_code == 201
    # The first request has counted the queued audits, and the queue is far from full.
    assert [one.split()[0] for one in statements] == ["SELECT", "INSERT"]
    assert ["ingest_keys" in one for one in statements] == [True, False]


def test_the_last_use_is_noted_now_and_then(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    def last_use(row: type[IngestKey] | type[ReadToken]) -> object:
        db_session.expire_all()
        return db_session.scalar(
            select(row.last_used_at).where(row.account_id == tenant.account_id)
        )

    assert last_use(IngestKey) is None
    client.post(INGEST, json=batch(), headers=tenant.writes)
    client.get(AUDITS, headers=tenant.reads)
    first = last_use(IngestKey)
    assert first is not None
    assert last_use(ReadToken) is not None
    client.post(INGEST, json=batch(), headers=tenant.writes)
    assert last_use(IngestKey) == first
    long_ago = utc_now() - timedelta(hours=1)
    db_session.execute(update(IngestKey).values(last_used_at=long_ago))
    db_session.commit()
    client.post(INGEST, json=batch(), headers=tenant.writes)
    assert last_use(IngestKey) != long_ago


@each_case("scheme", ["bearer", "BEARER", "Bearer"])
def test_the_schemes_case_does_not_matter(client: FlaskClient, tenant: Tenant, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {tenant.key}"}
    assert client.post(INGEST, json=batch(), headers=headers).status_code == 201


@each_case("scheme", ["Basic", "Token", "Bearer:"])
def test_no_other_scheme_is_accepted(client: FlaskClient, tenant: Tenant, scheme: str) -> None:
    for path, secret in ((INGEST, tenant.key), (AUDITS, tenant.token)):
        method = "POST" if path == INGEST else "GET"
        answer = client.open(path, method=method, headers={"Authorization": f"{scheme} {secret}"})
        error_of(answer, 401, "unauthorized")


def test_a_credential_counts_in_the_header_only(client: FlaskClient, tenant: Tenant) -> None:
    error_of(client.get(f"{AUDITS}?access_token={tenant.token}"), 401, "unauthorized")
    client.set_cookie("Authorization", f"Bearer {tenant.token}")
    error_of(client.get(AUDITS), 401, "unauthorized")
