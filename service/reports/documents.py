"""Report documents as pages read them: late, and of their evidence only what is looked at."""

from collections.abc import Callable, Hashable
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw
from sqlalchemy import select
from sqlalchemy.orm import Session

from detectors.contract import Evidence, Finding, Report
from service.errors import NotFoundError
from service.models.audits.audits import ReportRow


class Document(NamedTuple):
    """A report document that is read where it is needed; whatever has its key is the same."""

    key: Hashable
    load: Callable[[], bytes]
    published_at: datetime | None = None


def find_published(session: Session, audit_id: str) -> Document | None:
    """The audit's report, once there is one. A rerun publishes another one, at another time."""
    query = select(ReportRow.created_at).where(ReportRow.audit_id == audit_id)
    published_at = session.scalar(query)

    def load() -> bytes:
        row = session.get(ReportRow, audit_id)
        if row is None:  # deleted meanwhile, with its account
            raise NotFoundError
        return row.document

    return None if published_at is None else Document((audit_id, published_at), load, published_at)


class ListedFinding(Finding, frozen=True, kw_only=True):
    """A finding whose evidence is counted and not decoded: of many findings it is most."""

    evidence: tuple[Raw, ...] = ()  # type: ignore[assignment]  # the same calls, as they came


class ListedReport(Report, frozen=True, kw_only=True):
    findings: tuple[ListedFinding, ...]


def read_listed(content: bytes) -> ListedReport:
    return msgspec.json.decode(content, type=ListedReport)


def with_evidence(finding: ListedFinding) -> Finding:
    """The finding as the document has it."""
    calls = tuple(msgspec.json.decode(each, type=Evidence) for each in finding.evidence)
    fields = {name: getattr(finding, name) for name in finding.__struct_fields__}
    return Finding(**(fields | {"evidence": calls}))
