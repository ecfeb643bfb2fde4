"""GET /api/v1/audits/<audit_id>/findings."""

from decimal import Decimal
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from tests.cases import each_case
from tests.service.support.scenes import AUDITS, Sessions, Tenant, error_of
from tests.service.web.pages.scenes import add_finding, add_run


def _add_audit(sessions: Sessions, account_id: str, dollars: tuple[str, ...] = ()) -> str:
    audit_id = add_run(sessions, account_id)
    for rank, amount in reversed(list(enumerate(dollars, 1))):
        own = {"id": f"d{7 - rank}-001", "monthly_cost_impact_usd": Decimal(amount)}
        add_finding(sessions, audit_id, rank, 1, **own)  # the rank decides, not the id
    return audit_id


def _path(audit_id: str) -> str:
    return f"{AUDITS}/{quote(audit_id, safe='')}/findings"


def test_findings_are_listed_by_rank_with_exactly_the_documented_fields(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    audit_id = _add_audit(sessions, tenant.account_id, ("900.123456789", "20", "0"))
    response = client.get(_path(audit_id), headers=tenant.reads)
    assert response.status_code == 200
    document = response.get_json()
    assert set(document) == {"audit_id", "findings"}
    assert document["audit_id"] == audit_id
    assert document["findings"][0] == {
        "id": "d6-001",
        "detector": "d1_model_overkill",
        "route": "support-bot",
        "severity": "high",
        "confidence": "ESTIMATED",
        "monthly_cost_impact_usd": 900.123456789,
        "fix": "Try another model.",
        "impact_low": None,
        "impact_high": None,
        "first_seen": None,
        "last_seen": None,
    }
    assert [one["monthly_cost_impact_usd"] for one in document["findings"]] == [
        900.123456789,
        20,
        0,
    ]
    # An audit without findings has an empty list.
    audit_id = _add_audit(sessions, tenant.account_id)
    response = client.get(_path(audit_id), headers=tenant.reads)
    assert response.get_json() == {"audit_id": audit_id, "findings": []}


@pytest.mark.usefixtures("without_indexes")
def test_findings_are_ranked_however_they_were_written(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    audit_id = _add_audit(sessions, tenant.account_id, ("7", "5", "3", "1"))
    listed = client.get(_path(audit_id), headers=tenant.reads).get_json()["findings"]
    assert [one["monthly_cost_impact_usd"] for one in listed] == [7, 5, 3, 1]


@each_case("audit_id", ["x" * 201, "\0", "a\nb", "\x7f", "\x85", "a\x1b[0m"])
def test_what_cannot_be_an_id_is_rejected(
    client: FlaskClient, tenant: Tenant, audit_id: str
) -> None:
    error_of(client.get(_path(audit_id), headers=tenant.reads), 422, "validation_error")
