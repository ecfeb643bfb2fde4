"""GET /api/v1/audits."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models import Audit
from tests.cases import each_case
from tests.service.support.scenes import AUDITS, Sessions, Tenant, add_tenant, error_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _add_audits(session: Session, account_id: str, count: int) -> list[str]:
    """Audits a minute apart; returns their ids, newest first."""
    for index in range(count):
        session.add(
            Audit(
                account_id=account_id,
                source="ingest",
                blob_key="raw/x.jsonl",
                created_at=START + timedelta(minutes=index),
            )
        )
        session.flush()
    session.commit()
    newest = session.query(Audit).filter_by(account_id=account_id).order_by(Audit.created_at.desc())
    return [audit.id for audit in newest]


def test_a_summary_has_exactly_the_documented_fields_as_json_numbers(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    db_session.add(
        Audit(
            id="a1",
            account_id=tenant.account_id,
            source="ingest",
            blob_key="raw/x.jsonl",
            status="done",
            created_at=START,
            records=1234,
            observed_days=14,
            total_spend_usd=Decimal("1234.567890123"),
            projected_spend_usd=Decimal("2645.502621692"),
            savings_pct=31.25,
            equiv_spend=True,
            findings_count=6,
            projection="rough",
            span_days=2.5,
            window_start=START - timedelta(days=3),
            monthly_factor=12.0,
            verified_savings_usd=Decimal("61.8"),
            estimated_savings_usd=Decimal("1200.000000001"),
            estimated_savings_low_usd=Decimal(700),
            estimated_savings_high_usd=Decimal(1500),
            conditional_savings_usd=Decimal(770),
            conditional_savings_low_usd=Decimal(0),
            conditional_savings_high_usd=Decimal("900.5"),
        )
    )
    db_session.commit()
    response = client.get(AUDITS, headers=tenant.reads)
    assert response.get_json()["audits"] == [
        {
            "id": "a1",
            "status": "done",
            "created_at": "2026-03-01T12:00:00Z",
            "source": "ingest",
            "records": 1234,
            "observed_days": 14,
            "total_spend_usd": 1234.567890123,
            "projected_spend_usd": 2645.502621692,
            "savings_pct": 31.25,
            "equiv_spend": True,
            "findings": 6,
            "projection": "rough",
            "span_days": 2.5,
            "window_start": "2026-02-26T12:00:00Z",
            "monthly_factor": 12.0,
            "verified_savings_usd": 61.8,
            "estimated_savings_usd": 1200.000000001,
            "estimated_savings_low_usd": 700,
            "estimated_savings_high_usd": 1500,
            "conditional_savings_usd": 770,
            "conditional_savings_low_usd": 0,
            "conditional_savings_high_usd": 900.5,
        }
    ]


def test_what_is_not_computed_is_zero_or_null(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    _add_audits(db_session, tenant.account_id, 1)
    [audit] = client.get(AUDITS, headers=tenant.reads).get_json()["audits"]
    assert audit["status"] == "queued"
    numbers = ("observed_days", "total_spend_usd", "projected_spend_usd", "savings_pct", "findings")
    assert [audit[name] for name in numbers] == [0] * 5
    assert audit["equiv_spend"] is False
    # Savings by confidence are null until computed and in older audits.
    names = ("projection", "span_days", "window_start", "monthly_factor")
    sums = [name for name in audit if name.startswith(("verified", "estimated", "conditional"))]
    assert len(sums) == 7
    assert {audit[name] for name in (*names, *sums)} == {None}


def test_the_limit_counts_audits_and_is_fifty_by_default(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    ids = _add_audits(db_session, tenant.account_id, 201)
    for query, count in (("", 50), ("?limit=1", 1), ("?limit=200", 201)):
        listed = client.get(f"{AUDITS}{query}", headers=tenant.reads).get_json()["audits"]
        assert [audit["id"] for audit in listed] == ids[: min(count, 200)]


@each_case(
    "limit",
    [
        *("0", "201", "-1", "x", "", "1.5", "1e2", "99999999999999999999"),
        *("1_0", "%2B5", "%205", "5%20", "%D9%A5", "0x5", "true"),
    ],
)
def test_a_limit_out_of_range_is_rejected(client: FlaskClient, tenant: Tenant, limit: str) -> None:
    response = client.get(f"{AUDITS}?limit={limit}", headers=tenant.reads)
    message = error_of(response, 422, "validation_error")
    assert message == "limit must be a whole number from 1 to 200"


def test_a_lapsed_subscription_still_reads(client: FlaskClient, sessions: Sessions) -> None:
    tenant = add_tenant(sessions, status="canceled")
    assert client.get(AUDITS, headers=tenant.reads).status_code == 200
