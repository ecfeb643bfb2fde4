"""Reports behind signed links, as a browser requests them."""

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.config import Config
from service.core.tokens import sign_report
from service.models import Audit, ReportRow
from tests.service.support.scenes import Tenant

Publish = Callable[[Report], str]


@pytest.fixture
def publish(
    db_session: Session, tenant: Tenant, config: Config, client: FlaskClient
) -> Callable[[Report], str]:
    """Store a finished audit with this report; returns the path of its signed link."""

    def store(report: Report) -> str:
        audit = Audit(
            account_id=tenant.account_id, source="upload", blob_key="raw/x.jsonl", status="done"
        )
        db_session.add(audit)
        db_session.flush()
        audit.frame_key = f"frames/{audit.id}-1.parquet"
        db_session.add(ReportRow(audit_id=audit.id, document=report.to_json()))
        db_session.commit()
        return f"/r/{sign_report(config.secret_key, audit.id)}"

    return store
