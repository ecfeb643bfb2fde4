"""Read what the database stores about one audit."""

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from service.models import Audit, ReportRow


def load(engine: Engine, audit_id: str) -> Audit:
    with Session(engine, expire_on_commit=False) as session:
        return session.get_one(Audit, audit_id)


def document(engine: Engine, audit_id: str) -> bytes | None:
    query = select(ReportRow.document).where(ReportRow.audit_id == audit_id)
    with Session(engine) as session:
        return session.scalar(query)
