"""What happened on the days of a chart: unusual spend, and findings that were fixed or returned."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, case, select
from sqlalchemy.orm import Session

from detectors.wording.actions import title
from detectors.wording.figures import usd
from detectors.wording.labels import shortened
from detectors.wording.names import NO_ROUTE
from service.models.audits.audit_settings import find_settings
from service.models.calls.account_findings import FIXED, RETURNED, AccountFinding, FindingChange
from service.models.calls.finding_list import FINDING_LABELS, matches_findings
from service.models.operations.chart_marks import list_chart_marks
from service.models.watching.watches import list_unusual_days
from service.operations.watching.unusual_days import ACCOUNT

UNUSUAL: Final = "unusual"
NOTED, PRICES = "noted", "prices"
_LONGEST_NAME: Final = 40
_MOST_CHANGES: Final = 100


class Mark(NamedTuple):
    """What happened on a day, and in words.

    `unusual` spend, a finding that was `fixed` or `returned`, what the account has `noted`, such as
    a deploy, and its own `prices` that begin or end.
    """

    kind: str
    words: str


def list_marks(
    session: Session, account_id: str, days: tuple[date, date], only: Mapping[str, str]
) -> Mapping[date, Sequence[Mark]]:
    """Return the marks of each day of a range that has any: of the account, or of `only`."""
    marks = defaultdict[date, list[Mark]](list)
    for found in list_unusual_days(session, account_id, days, limit=None):
        series = [
            each
            for each in found.series
            if not only or (only.get(each["scope"]) == (each["name"] or ""))
        ]
        if len(only) < 2 and (series or not only):
            marks[found.day].append(Mark(UNUSUAL, _describe(series)))
    terms = find_settings(session, account_id).price_terms
    for noted in list_chart_marks(session, account_id, days):
        marks[noted.day].append(Mark(NOTED, noted.words))
    for day, words in _list_price_days(tomllib.loads(terms)):
        if days[0] <= day <= days[1]:
            marks[day].append(Mark(PRICES, words))
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


def _list_price_days(terms: Any, name: str = "") -> Iterator[tuple[date, str]]:
    """Yield the days on which negotiated rates and discounts begin, and those after their last.

    `terms` are a part of the parsed file, below the name of a provider or a model.
    """
    if isinstance(terms, list):
        for each in terms:
            yield from _list_price_days(each, name)
    elif isinstance(terms, dict):
        if isinstance(terms.get("from"), date):
            yield terms["from"], f"Your prices for {name} begin"
        if isinstance(terms.get("until"), date):
            yield terms["until"] + timedelta(days=1), f"Your prices for {name} end"
        for key, each in terms.items():
            yield from _list_price_days(each, shortened(key, _LONGEST_NAME))


def _describe(series: Sequence[Mapping[str, Any]]) -> str:
    if not series:
        return "Unusual spend"
    most = series[0]
    unnamed = "Account" if most["scope"] == ACCOUNT else NO_ROUTE
    name = shortened(most["name"], _LONGEST_NAME) if most["name"] else unnamed
    return f"Unusual: {name} {usd(most['spend_usd'])}, usually {usd(most['expected_usd'])}"
