"""GET and DELETE /api/v1/report-links: the report links of an account."""

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service.core.tokens import sign_report
from service.models import ReportLink
from service.models.base import utc_now
from tests.service.support.documents import make_report
from tests.service.support.scenes import (
    SECRET_KEY,
    Sessions,
    Tenant,
    add_browser,
    add_tenant,
    error_of,
)
from tests.service.web.pages.scenes import add_run

LINKS = "/api/v1/report-links"


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


def _add_link(sessions: Sessions, account_id: str, days_ago: float = 0, **fields: Any) -> str:
    audit_id = add_run(sessions, account_id, make_report())
    with sessions() as session:
        issued_at = utc_now() - timedelta(days=days_ago)
        owned = {"audit_id": audit_id, "account_id": account_id}
        session.add(ReportLink(**owned, issued_at=issued_at, **fields))
        session.commit()
    return audit_id


def _list(client: FlaskClient, tenant: Tenant, query: str = "") -> dict[str, Any]:
    response = client.get(f"{LINKS}{query}", headers=tenant.reads)
    assert response.status_code == 200
    return dict(response.get_json())


def test_the_list_has_the_state_of_each_link_and_no_link(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    mine, now = tenant.account_id, utc_now()
    revoked = _add_link(sessions, mine, 3, revoked_at=now)
    expired = _add_link(sessions, mine, 31)
    active = _add_link(sessions, mine, 1, opens=2, last_opened_at=now, generation=4)
    _add_link(sessions, add_tenant(sessions).account_id)
    listed = _list(client, tenant)["report_links"]
    states = [(one["audit_id"], one["state"], one["opens"]) for one in listed]
    assert states == [(active, "active", 2), (revoked, "revoked", 0), (expired, "expired", 0)]
    assert [sorted(set(one) & {"revoked_at", "last_opened_at"}) for one in listed] == [
        ["last_opened_at"],
        ["revoked_at"],
        [],
    ]
    assert "/r/" not in str(listed)
    assert sign_report(SECRET_KEY, active, 4).split(".")[0] not in str(listed)


def test_pages_together_are_the_whole_list(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    added = [_add_link(sessions, tenant.account_id, day) for day in range(5)]
    found, query = [], "?limit=2"
    for _ in range(3):
        page = _list(client, tenant, query)
        found += [one["audit_id"] for one in page["report_links"]]
        query = f"?limit=2&cursor={page.get('next_cursor')}"
    assert found == added
    assert "next_cursor" not in page
    error_of(client.get(f"{LINKS}?cursor=x", headers=tenant.reads), 422, "validation_error")


def test_a_revoked_link_is_dead_and_stays_so_when_it_is_revoked_again(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    audit_id, session = (
        _add_link(sessions, tenant.account_id),
        add_browser(sessions, tenant.account_id),
    )
    link = f"/r/{sign_report(SECRET_KEY, audit_id)}"
    assert client.get(link).status_code == 200
    first = client.delete(f"{LINKS}/{audit_id}", headers=session.headers)
    assert first.status_code == 200
    assert first.get_json()["state"] == "revoked"
    assert client.get(link).status_code == 404
    again = client.delete(f"{LINKS}/{audit_id}", headers=session.headers)
    assert again.get_json() == first.get_json()


def test_a_link_that_was_never_opened_can_be_revoked(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    """Links of earlier releases have no row."""
    audit_id = add_run(sessions, tenant.account_id)
    session = add_browser(sessions, tenant.account_id)
    assert _list(client, tenant)["report_links"] == []
    assert client.delete(f"{LINKS}/{audit_id}", headers=session.headers).status_code == 200
    assert [one["state"] for one in _list(client, tenant)["report_links"]] == ["revoked"]


def test_revoking_is_limited_and_shows_the_limit(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    session = add_browser(sessions, tenant.account_id)
    response = client.delete(f"{LINKS}/{'0' * 32}", headers=session.headers)
    error_of(response, 404, "not_found")
    assert int(response.headers["RateLimit-Remaining"]) > 0
