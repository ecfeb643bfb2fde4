"""Answer with the findings of an account as a table."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from flask import Response
from sqlalchemy.orm import Session

from service.core.time_zones import UTC_NAME
from service.models.calls.finding_list import (
    FindingFilter,
    has_more_findings,
    iter_account_findings,
)
from service.operations.findings.realized import measure_realized
from service.web.http.tables import CSV, send_table

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


class FindingTable(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The findings that a filter shows."""

    account_id: str
    wanted: FindingFilter
    ending: str = CSV
    mark: str = ""
    zone: str = UTC_NAME

    @property
    def name(self) -> str:
        return "findings"

    @property
    def header(self) -> Sequence[str]:
        return HEADER

    def has_more_lines(self, session: Session, number: int) -> bool:
        return has_more_findings(session, self.account_id, self.wanted, number)

    def rows(self, session: Session) -> Iterator[Sequence[Any]]:
        for batch in iter_account_findings(session, self.account_id, self.wanted):
            ids = [each.id for each in batch if each.fixed_at is not None]
            realized = measure_realized(session.connection(), self.account_id, ids)
            for each in batch:
                saved = realized.get(each.id)
                values = {name: getattr(each, column) for name, column in _COLUMNS.items()}
                values["is_monthly"] = "true" if each.is_monthly else "false"
                measured = (saved.total_usd, saved.monthly_usd) if saved else (None, None)
                cents = [None if usd is None else round(usd, 9) for usd in measured]
                yield [*values.values(), *cents, *(getattr(each, name) for name in _LAST)]


def answer_findings_csv(account_id: str, wanted: FindingFilter, *, mark: str = "") -> Response:
    """Return all findings as CSV, which begins with the mark."""
    return send_table(FindingTable(account_id=account_id, wanted=wanted, mark=mark))


def answer_findings_xlsx(account_id: str, wanted: FindingFilter) -> Response:
    """Return all findings as a workbook."""
    return send_table(FindingTable(account_id=account_id, wanted=wanted, ending="xlsx"))
