"""The potential savings of a finding in each audit of an account."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, Protocol

from detectors.charts.chart import ceiling
from detectors.charts.columns import Column, Columns, Series, name_some, outline_columns
from detectors.wording.figures import counted, day, short_day, short_usd, usd

_TITLE: Final = "Potential savings by audit"


class AuditedSavings(Protocol):
    """One audit: when it was, and its dollars, which are 0 without the finding."""

    @property
    def audited_at(self) -> datetime: ...
    @property
    def monthly_usd(self) -> Decimal: ...


def savings_by_audit(points: Sequence[AuditedSavings]) -> Columns:
    amounts = [each.monthly_usd for each in points]
    series = Series(key=None, name="Potential savings", kind=0, total=amounts[-1])
    columns = tuple(
        Column(
            label=day(each.audited_at),
            total=each.monthly_usd,
            parts=((series, each.monthly_usd),) if each.monthly_usd else (),
            is_late=at * 2 >= len(points),
        )
        for at, each in enumerate(points)
    )
    top = ceiling(float(max(amounts)))
    peak = max(columns, key=lambda column: column.total)
    return Columns(
        title=_TITLE,
        unit="Audit",
        summary=f"{usd(amounts[-1])} in the latest of {counted(len(points), 'audit')}; "
        f"peak: {usd(peak.total)} on {peak.label} (UTC).",
        outlines=outline_columns(columns, (series,), top),
        amounts=(short_usd(top), short_usd(top / 2), short_usd(0)),
        dates=name_some([short_day(each.audited_at.date()) for each in points]),
        columns=columns,
        series=(series,),
    )
