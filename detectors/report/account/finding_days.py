"""What each finding cost by day, for its trend and for what its fix saved."""

from datetime import timedelta
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import FindingDay
from detectors.engines import Calls
from detectors.report.counting.projection import DAY_US, EPOCH
from detectors.report.impacts import FINDING
from detectors.report.money import rounded, sum_usd, usd
from detectors.report.result.document import Report, find_calls

_SAVING: Final = "saving_usd"


def sum_finding_days(report: Report) -> list[FindingDay]:
    """Return the flagged calls of each finding and their savings, by day in UTC."""
    source = find_calls(report)
    names = {impact.key: finding_id for finding_id, impact in source.impacts.items()}
    with source.reopen() as frames:
        flagged: Calls = nw.concat(list(frames.found), how="vertical").filter(nw.col("in_window"))
        by_day = flagged.with_columns((nw.col("at_us") // DAY_US).alias("day"))
        by_day = by_day.select(*FINDING, "day", _SAVING)
        calls = [nw.len().alias("calls")]
        rows = frames.engine.fetch(sum_usd(by_day, _SAVING, by=(*FINDING, "day"), others=calls))
    found = [
        FindingDay(
            finding_id=names[key],
            day=(EPOCH + timedelta(days=row["day"])).date(),
            calls=row["calls"],
            saving_usd=rounded(usd(row, _SAVING)),
        )
        for row in rows
        if (key := (row["detector"], row["kind"], row["group"])) in names
    ]
    return sorted(found, key=lambda each: (each.finding_id, each.day))
