"""Report documents as pages read them: on demand, with evidence decoded only when it is shown."""

from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw
from sqlalchemy import select
from sqlalchemy.orm import Session

from detectors.contract import Evidence, Finding, Report
from detectors.wording import findings_csv
from detectors.wording.imports import as_import
from service.errors import NotFoundError
from service.models.audits.audits import ReportRow


class Document(NamedTuple):
    """A report document that is loaded on demand; an equal key means equal content."""

    key: Hashable
    load: Callable[[], bytes]
    published_at: datetime | None = None


def find_published(session: Session, audit_id: str) -> Document | None:
    """Return the audit's report, or None before it is published. A rerun replaces it."""
    query = select(ReportRow.created_at).where(ReportRow.audit_id == audit_id)
    published_at = session.scalar(query)
    return None if published_at is None else make_document(session, audit_id, published_at)


def make_document(session: Session, audit_id: str, published_at: datetime) -> Document:
    """Return the report that was published at this time."""

    def load() -> bytes:
        row = session.get(ReportRow, audit_id)
        if row is None:  # deleted with its account since the query above
            raise NotFoundError
        return row.document

    return Document((audit_id, published_at), load, published_at)


class ListedFinding(Finding, frozen=True, kw_only=True):
    """A finding with undecoded evidence, because most of a long report is evidence."""

    evidence: tuple[Raw, ...] = ()  # type: ignore[assignment]  # the same calls, as raw JSON


class ListedReport(Report, frozen=True, kw_only=True):
    findings: tuple[ListedFinding, ...]


_LISTED: Final = msgspec.json.Decoder(ListedReport)
_EVIDENCE: Final = msgspec.json.Decoder(Evidence)


def read_listed(content: bytes) -> ListedReport:
    """Decode a report document, all but its evidence."""
    return _LISTED.decode(content)


def with_evidence(finding: ListedFinding) -> Finding:
    """Return the finding with its evidence decoded."""
    calls = tuple(map(_EVIDENCE.decode, finding.evidence))
    fields = {name: getattr(finding, name) for name in finding.__struct_fields__}
    return Finding(**(fields | {"evidence": calls}))


def print_findings(document: bytes, *, is_batch: bool = False) -> str:
    """Return every finding of a report document as CSV, by rank."""
    report = Report.from_json(document)
    return findings_csv.print_findings(as_import(report) if is_batch else report)
