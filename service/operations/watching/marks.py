"""What happened on the days of a chart: unusual spend, and findings that were fixed or returned."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, case, select
from sqlalchemy.orm import Session

from detectors.wording.actions import title
from detectors.wording.figures import usd
from detectors.wording.labels import shortened
from detectors.wording.names import NO_ROUTE
from service.models.calls.account_findings import FIXED, RETURNED, AccountFinding, FindingChange
from service.models.calls.finding_list import FINDING_LABELS, matches_findings
from service.models.watching.watches import list_unusual_days
from service.operations.watching.unusual_days import ACCOUNT

UNUSUAL: Final = "unusual"
_LONGEST_NAME: Final = 40
_MOST_CHANGES: Final = 100


class Mark(NamedTuple):
    """What happened on a day: `unusual`, `fixed` or `returned`, and in words."""

    kind: str
    words: str


def list_marks(
    session: Session, account_id: str, days: tuple[date, date], only: Mapping[str, str]
) -> Mapping[date, Sequence[Mark]]:
    """Return the marks of each day of a range that has any: of the account, or of `only`."""
    marks = defaultdict[date, list[Mark]](list)
    for found in list_unusual_days(session, account_id, days, limit=None):
        series = [each for each in found.series if not only or _is_of(each, only)]
        if len(only) < 2 and (series or not only):
            marks[found.day].append(Mark(UNUSUAL, _describe(series)))
    if any(name not in FINDING_LABELS for name in only):
        return marks
    begin, end = (datetime.combine(each, time(), UTC) for each in (days[0], days[1]))
    # An audit notices a fix two weeks after it.
    is_noticed = and_(FindingChange.after == FIXED, FindingChange.changed_by == "")
    is_noticed = and_(is_noticed, AccountFinding.fixed_at.is_not(None))
    at = case((is_noticed, AccountFinding.fixed_at), else_=FindingChange.changed_at)
    query = (
        select(FindingChange, AccountFinding, at)
        .join(AccountFinding, AccountFinding.id == FindingChange.account_finding_id)
        .where(
            AccountFinding.account_id == account_id,
            FindingChange.after.in_((FIXED, RETURNED)),
            at >= begin,
            at < end + timedelta(days=1),
            *matches_findings(only),
        )
        .order_by(FindingChange.id.desc())
        .limit(_MOST_CHANGES)
    )
    for change, finding, happened_at in session.execute(query):
        reason = f" ({shortened(change.reason, _LONGEST_NAME)})" if change.reason else ""
        words = f"{change.after.capitalize()}: {title(finding)}{reason}"
        mark, day = Mark(change.after, words), happened_at.astimezone(UTC).date()
        if mark not in marks[day]:
            marks[day].append(mark)
    return marks


def _is_of(series: Mapping[str, Any], only: Mapping[str, str]) -> bool:
    return only.get(series["scope"]) == (series["name"] or "")


def _describe(series: Sequence[Mapping[str, Any]]) -> str:
    if not series:
        return "Unusual spend"
    most = series[0]
    unnamed = "Account" if most["scope"] == ACCOUNT else NO_ROUTE
    name = shortened(most["name"], _LONGEST_NAME) if most["name"] else unnamed
    return f"Unusual: {name} {usd(most['spend_usd'])}, usually {usd(most['expected_usd'])}"
