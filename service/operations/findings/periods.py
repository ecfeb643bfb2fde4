"""What all fixed findings of an account have saved: this month, before, and since their fixes.

One query for any number of findings; each is measured as `measure_realized` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Select,
    and_,
    bindparam,
    func,
    select,
    union_all,
)

from service.models.base import Executor
from service.models.calls.account_findings import FIXED, AccountFinding, FindingSaving
from service.models.calls.daily_spend import SpendGroup, SpendRow
from service.models.calls.finding_list import matches_findings
from service.operations.findings.realized import DAYS_BEFORE, FIXED_ON, IS_ROUTE

_BEFORE: Final = FIXED_ON - (DAYS_BEFORE - 1)
_MONTH_DAYS: Final = 30
_HAS_ROUTE: Final = AccountFinding.route != AccountFinding.model


@dataclass(frozen=True, kw_only=True)
class RealizedSavings:
    """The savings of fixed findings; negative if the fixes cost more than they saved."""

    findings: int  # that are fixed
    measured: int  # those with calls before and after their fix
    month_usd: Decimal = Decimal(0)  # in the two periods
    previous_usd: Decimal = Decimal(0)
    total_usd: Decimal = Decimal(0)  # since the fixes
    monthly_usd: Decimal = Decimal(0)  # at today's volume


class _Periods(NamedTuple):
    """Sums before the fix, since, and in two periods since."""

    before: Any
    since: Any
    month: Any
    previous: Any


def measure_all_realized(
    session: Executor,
    account_id: str,
    only: Mapping[str, str],
    periods: tuple[tuple[date, date], tuple[date, date]],
    newest: date | None,
) -> RealizedSavings:
    """Return the realized savings of an account, in total and in two periods.

    ``newest`` is the last day until today with calls of the account.
    """
    ends: dict[str, Any] = {"newest": newest}
    for at, (first, last) in enumerate(periods):
        ends |= {f"first_{at}": first, f"last_{at}": last}
    given = {"account_id": account_id, **{f"only_{name}": value for name, value in only.items()}}
    fixed = session.execute(_query(tuple(only)), given | ends).all()
    if newest is None:
        return RealizedSavings(findings=len(fixed), measured=0)
    saved = []
    for fixed_on, *sums in fixed:
        amounts = [Decimal(each or 0) for each in sums]
        counts, wasted_usd = _Periods(*amounts[:4]), _Periods(*amounts[4:])
        days = (newest - fixed_on).days
        if days > 0 and counts.before and counts.since:
            usd_per_call = wasted_usd.before / counts.before
            each = zip(counts, wasted_usd, strict=True)
            saved.append((_Periods(*(usd_per_call * count - usd for count, usd in each)), days))
    return RealizedSavings(
        findings=len(fixed),
        measured=len(saved),
        month_usd=sum((each.month for each, _ in saved), Decimal(0)),
        previous_usd=sum((each.previous for each, _ in saved), Decimal(0)),
        total_usd=sum((each.since for each, _ in saved), Decimal(0)),
        monthly_usd=sum((each.since / days * _MONTH_DAYS for each, days in saved), Decimal(0)),
    )


# Writing the query would take longer than running it.
@cache
def _query(names: tuple[str, ...]) -> Select[Any]:
    """Return when each finding was fixed, the sums of its calls, and of what they cost too much.

    `names` are the labels that calls must have.
    """
    matches = (
        AccountFinding.account_id == bindparam("account_id"),
        AccountFinding.state == FIXED,
        AccountFinding.fixed_at.is_not(None),
        *matches_findings({name: bindparam(f"only_{name}") for name in names}),
    )
    # The calls of each finding's route, which are grouped; without one, of its model.
    groups = select(AccountFinding.id, *_sums(SpendGroup.day, SpendGroup.calls))
    of_route = (_HAS_ROUTE, SpendGroup.value == AccountFinding.route, SpendGroup.label == "route")
    groups = groups.join(SpendGroup, SpendGroup.account_id == AccountFinding.account_id)
    groups = groups.where(*of_route, SpendGroup.day >= _BEFORE)
    lines = select(AccountFinding.id, *_sums(SpendRow.day, SpendRow.calls))
    lines = lines.join(SpendRow, and_(IS_ROUTE, SpendRow.day >= _BEFORE)).where(~_HAS_ROUTE)
    both = (each.where(*matches).group_by(AccountFinding.id) for each in (groups, lines))
    # The dollars that each finding cost more than it had to.
    of_finding = FindingSaving.account_finding_id == AccountFinding.id
    sums = _sums(FindingSaving.day, FindingSaving.saving_usd)
    recent = and_(of_finding, FindingSaving.day >= _BEFORE)
    wasted = select(AccountFinding.id, *sums).join(FindingSaving, recent)
    calls = union_all(*both).subquery()
    waste = wasted.where(*matches).group_by(AccountFinding.id).subquery()
    query = select(FIXED_ON, *(list(calls.c)[1:]), *(list(waste.c)[1:])).where(*matches)
    query = query.outerjoin(calls, calls.c.id == AccountFinding.id)
    return query.outerjoin(waste, waste.c.id == AccountFinding.id)


def _sums(day: Any, amount: Any) -> _Periods:
    since = and_(day > FIXED_ON, day <= bindparam("newest"))
    ends: Any = [(bindparam(f"first_{at}"), bindparam(f"last_{at}")) for at in range(2)]
    in_periods = (and_(since, day.between(*each)) for each in ends)
    conditions = (day <= FIXED_ON, since, *in_periods)
    return _Periods(*(func.coalesce(func.sum(amount).filter(each), 0) for each in conditions))
