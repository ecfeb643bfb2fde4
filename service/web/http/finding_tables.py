"""Answer with the findings of an account as a table."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from flask import Response
from sqlalchemy.orm import Session

from service.models.calls.account_findings import AccountFinding
from service.models.calls.finding_list import FindingFilter, iter_account_findings
from service.operations.findings.realized import Realized, measure_realized
from service.web.http.current import current_session_factory
from service.web.http.tables import send_csv, send_workbook

_NAME: Final = "findings"
# Names of the API, and the columns that they come from.
_COLUMNS: Final = {
    **{name: name for name in ("id", "state", "detector", "kind", "route", "provider", "model")},
    **{name: name for name in ("severity", "confidence", "calls")},
    "monthly_cost_impact_usd": "monthly_usd",
    "observed_cost_impact_usd": "observed_usd",
    **{name: name for name in ("is_monthly", "first_seen", "last_seen", "assignee", "note")},
    **{name: name for name in ("fixed_at", "silent_until")},
}
_MEASURED: Final = ("realized_savings_usd", "realized_monthly_usd")
_LAST: Final = ("fix", "audit_id", "finding_id")
HEADER: Final = (*_COLUMNS, *_MEASURED, *_LAST)


def answer_findings_csv(account_id: str, wanted: FindingFilter, *, mark: str = "") -> Response:
    """Return all findings as CSV, which begins with the mark."""
    with current_session_factory()() as session:
        return send_csv(_NAME, HEADER, _rows(session, account_id, wanted), mark=mark)


def answer_findings_xlsx(account_id: str, wanted: FindingFilter) -> Response:
    """Return all findings as a workbook."""
    with current_session_factory()() as session:
        return send_workbook(_NAME, HEADER, _rows(session, account_id, wanted))


def _rows(session: Session, account_id: str, wanted: FindingFilter) -> Iterator[Sequence[Any]]:
    for batch in iter_account_findings(session, account_id, wanted):
        ids = [each.id for each in batch if each.fixed_at is not None]
        realized = measure_realized(session.connection(), account_id, ids)
        for each in batch:
            yield _cells(each, realized.get(each.id))


def _cells(finding: AccountFinding, saved: Realized | None) -> list[Any]:
    values = {name: getattr(finding, column) for name, column in _COLUMNS.items()}
    values["is_monthly"] = "true" if finding.is_monthly else "false"
    measured = (saved.total_usd, saved.monthly_usd) if saved else (None, None)
    cents = [None if each is None else round(each, 9) for each in measured]
    return [*values.values(), *cents, *(getattr(finding, name) for name in _LAST)]
