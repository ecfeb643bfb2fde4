"""Reports that were printed before: kept in memory, bounded, and never shown in place of others."""

from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from detectors.contract import Report
from detectors.wording.figures import whole_usd
from service.models import Audit, ReportRow
from service.reports.kept import KeptParts
from tests.service.reports.conftest import Publish
from tests.service.support.scaled_reports import make_scaled_report


def _publish_anew(session: Session, report: Report) -> None:
    """As a rerun does: the row goes, and another one comes."""
    row = session.query(ReportRow).one()
    audit_id, published_at = row.audit_id, row.created_at
    session.delete(row)
    session.flush()
    later = published_at + timedelta(microseconds=1)
    session.add(ReportRow(audit_id=audit_id, document=report.to_json(), created_at=later))
    session.commit()


def test_a_report_is_printed_once_for_many_readers(
    client: FlaskClient, publish: Publish, statements: list[str], db_session: Session
) -> None:
    path = publish(make_scaled_report(findings=3))
    pages = {client.get(path).data for _ in range(3)}
    assert len(pages) == 1
    assert len([one for one in statements if "reports.document" in one and "SELECT" in one]) == 1
    # A report that is deleted is shown to nobody.
    db_session.delete(db_session.query(Audit).one())
    db_session.commit()
    assert client.get(path).status_code == 404


def test_after_a_rerun_the_new_report_is_shown(
    client: FlaskClient, publish: Publish, db_session: Session
) -> None:
    old, new = (make_scaled_report(findings=3, records=count) for count in (1_000, 2_000))
    path = publish(old)
    assert whole_usd(old.audit.projected_spend_usd) in client.get(path).get_data(as_text=True)
    _publish_anew(db_session, new)
    page = client.get(path).get_data(as_text=True)
    assert whole_usd(new.audit.projected_spend_usd) in page
    assert whole_usd(old.audit.projected_spend_usd) not in page


def test_no_more_is_kept_than_said_and_what_was_asked_for_last_stays() -> None:
    kept, made = KeptParts[str](2), []

    def get(name: str) -> str:
        def make() -> str:
            made.append(name)
            return name.upper()

        return kept.get(name, make)

    assert [get(name) for name in "abacab"] == list("ABACAB")
    assert made == ["a", "b", "c", "b"]
    # What could not be made is tried again.
    numbers = KeptParts[int](1)
    with pytest.raises(ZeroDivisionError):
        numbers.get("x", lambda: 1 // 0)
    assert numbers.get("x", lambda: 1) == 1
