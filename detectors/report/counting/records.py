"""Counts and times of all records of some logs, priced or not, and their projections."""

from collections import Counter
from typing import Final, Self

import msgspec

from detectors.contract import InvalidRows, Thresholds
from detectors.engine import Row
from detectors.formats.columns import UNKNOWN, UNKNOWN_LARGEST
from detectors.frames.usage_log import ReadRows
from detectors.report.counting.projection import DayOfCalls, Projection

# So many names of unknown numbers are listed: a log can have another in each call.
_MOST_UNKNOWN: Final = 100


class Records(msgspec.Struct, kw_only=True):
    """Counts of the calls of one log without duplicate rows.

    `included` calls are included in a plan. Of them, only what is wrong with their records is
    counted elsewhere: `overfull`, `assumed` and `unknown`; all other counts are of metered calls.
    `hashed` calls have a prefix hash; of `assumed` calls, the source doesn't say whether the input
    tokens include the cached ones. `future` calls are dated in the future. `unknown` has names of
    usage fields that we don't know, with their calls and the largest number. `skipped` has the rows
    that are no calls, by reason. `tokens` are those of prompts and answers. `models` counts the
    calls of each (provider, model).
    """

    count: int
    included: int
    duplicate_rows: int
    valid_pct: float
    invalid: InvalidRows
    overfull: int
    hashed: int
    assumed: int
    future: int
    unknown: list[tuple[str, int, int]]
    skipped: list[tuple[str, int]]
    tokens: int
    projection: Projection
    models: list[Row]

    @classmethod
    def of(
        cls,
        log: ReadRows,
        days: list[Row],
        models: list[Row],
        included: list[Row],
        unknown: list[Row],
        thresholds: Thresholds,
    ) -> Self:
        """Count the rows by day of the metered calls and of those that are `included` in a plan.

        `unknown` rows are of both, by the names of the numbers that we don't know.
        """
        count, every = sum(row["calls"] for row in days), [*days, *included]
        number = sum(row["calls"] for row in included)
        calls, largest = Counter[str](), dict[str, int]()
        for each in unknown:
            for name in str(each[UNKNOWN]).split():
                calls[name] += int(each["calls"])
                largest[name] = max(largest.get(name, 0), int(each[UNKNOWN_LARGEST]))
        ranked = sorted(calls, key=lambda name: (-calls[name], name))[:_MOST_UNKNOWN]
        return cls(
            count=count,
            included=number,
            duplicate_rows=log.rows - log.invalid.count - count - number,
            valid_pct=log.valid_pct,
            invalid=log.invalid,
            overfull=sum(int(row["overfull"]) for row in every),
            hashed=sum(int(row["hashed"]) for row in days),
            assumed=sum(int(row["assumed"]) for row in every),
            future=log.future_calls,
            unknown=[(name, calls[name], largest[name]) for name in ranked],
            skipped=sorted(log.dropped.items(), key=lambda each: (-each[1], each[0])),
            tokens=sum(int(row["tokens"]) for row in days),
            projection=Projection.of(
                [
                    DayOfCalls(
                        calls=row["calls"],
                        first_us=row["first_us"],
                        last_us=row["last_us"],
                        seconds=row["seconds"],
                    )
                    for row in days
                ],
                thresholds,
                log.least_days,
                keeps_newest=log.is_account,
            ),
            models=models,
        )
