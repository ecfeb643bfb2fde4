"""Counts and times of all records of some logs, priced or not, and their projections."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Self

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import InvalidRows, Thresholds
from detectors.engines import Calls, Engine, Row
from detectors.formats.columns import ASSUMED, UNKNOWN, UNKNOWN_LARGEST
from detectors.frames.usage_log import Counted, ReadRows
from detectors.report import spend
from detectors.report.counting.projection import DAY_US, DayOfCalls, Projection

_SECOND_US: Final = 1_000_000
# Up to so many calls, planning the queries takes longer than computing them.
FEW_CALLS: Final = 20_000


class Records(msgspec.Struct, kw_only=True):
    """Counts of the calls of one log without duplicate rows.

    `hashed` calls have a prefix hash; of `assumed` calls, the source doesn't say whether the input
    tokens include the cached ones. `future` calls are dated in the future. `unknown` has names of
    usage fields that we don't know, with their calls and the largest number. `tokens` are those of
    prompts and answers. `models` counts the calls of each (provider, model).
    """

    count: int
    duplicate_rows: int
    valid_pct: float
    invalid: InvalidRows
    overfull: int
    hashed: int
    assumed: int
    future: int
    unknown: list[tuple[str, int, int]]
    tokens: int
    projection: Projection
    models: list[Row]

    @classmethod
    def of(cls, log: ReadRows, days: list[Row], models: list[Row], thresholds: Thresholds) -> Self:
        count = sum(row["calls"] for row in days)
        return cls(
            count=count,
            duplicate_rows=log.rows - log.invalid.count - count,
            valid_pct=log.valid_pct,
            invalid=log.invalid,
            overfull=sum(int(row["overfull"]) for row in days),
            hashed=sum(int(row["hashed"]) for row in days),
            assumed=sum(int(row["assumed"]) for row in days),
            future=log.future_calls,
            unknown=_unknown(days),
            tokens=sum(int(row["tokens"]) for row in days),
            projection=Projection.of(
                [_day(row) for row in days],
                thresholds,
                log.least_days,
                keeps_newest=log.is_account,
            ),
            models=models,
        )


def _unknown(days: list[Row]) -> list[tuple[str, int, int]]:
    """Return the names of unknown numbers, with their calls and the largest number."""
    calls, largest = Counter[str](), dict[str, int]()
    for row in days:
        # Days that were counted by an earlier release have no such columns.
        for name in str(row.get(UNKNOWN) or "").split():
            calls[name] += int(row["unknown"])
            largest[name] = max(largest.get(name, 0), int(row[UNKNOWN_LARGEST]))
    return [(name, count, largest[name]) for name, count in calls.most_common()]


def _day(row: Row) -> DayOfCalls:
    return DayOfCalls(
        calls=row["calls"],
        first_us=row["first_us"],
        last_us=row["last_us"],
        seconds=row["seconds"],
    )


class CountedCalls(msgspec.Struct):
    """The calls of some logs without duplicate rows, until they are taken, and the logs' counts.

    The column in `keys` numbers the logs; there is none for a single log.
    """

    logs: list[Records]
    keys: tuple[str, ...]
    _calls: list[Calls]

    @classmethod
    def of(
        cls,
        logs: Sequence[ReadRows],
        calls: Calls,
        engine: Engine,
        thresholds: Thresholds,
        *,
        keys: tuple[str, ...] = (),
    ) -> Self:
        engine.has_few_calls = sum(log.rows for log in logs) <= FEW_CALLS
        if not all(log.is_account for log in logs):
            fields = calls.collect_schema().names()
            calls = engine.keep(engine.drop_duplicate_rows(calls, fields))
        rows = logs[0].counted or Counted(
            days=engine.fetch(count_days(calls if keys else engine.mark_seconds(calls), keys)),
            models=spend.count_models(calls, engine, keys),
        )
        days, models = _by_log(rows.days, len(logs)), _by_log(rows.models, len(logs))
        counted = [
            Records.of(log, sorted(own, key=lambda row: row["day"]), counts, thresholds)
            for log, own, counts in zip(logs, days, models, strict=True)
        ]
        for number, log in enumerate(counted):
            if log.projection.may_have_few(thresholds):
                window = calls.filter(
                    _is_in(log.projection), *(nw.col(key) == number for key in keys)
                )
                (found,) = engine.fetch(window.select(nw.len().alias("calls")))
                log.projection = log.projection.with_calls(found["calls"], thresholds)
        return cls(counted, keys, [calls])

    def take_calls(self, engine: Engine) -> Calls:
        """Return the calls once, so that the caller can free them, and mark the window's."""
        calls, at = self._calls.pop(), nw.col("at_us")
        if not self.keys:
            (log,) = self.logs
            return calls.with_columns(_is_in(log.projection).alias("in_window"))
        rows = [
            (number, log.projection.from_us, log.projection.to_us)
            for number, log in enumerate(self.logs)
        ]
        schema = {"log": pl.Int32, "from_us": pl.Int64, "to_us": pl.Int64}
        windows = engine.place(pl.DataFrame(rows, schema, orient="row"), calls)
        is_in = (at >= nw.col("from_us")) & (at <= nw.col("to_us"))
        return (
            calls.join(windows, on=list(self.keys), how="inner")
            .with_columns(is_in.alias("in_window"))
            .drop("from_us", "to_us")
        )


def _is_in(projection: Projection) -> nw.Expr:
    at = nw.col("at_us")
    return (at >= projection.from_us) & (at <= projection.to_us)


def _by_log(rows: Sequence[Row], logs: int) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in range(logs)]
    for row in rows:
        found[row.get("log", 0)].append(row)
    return found


def count_days(calls: Calls, keys: Sequence[str] = ()) -> Calls:
    """Count the calls of each day, in UTC, of each log: what `Records` and projections need.

    The calls may come from `Engine.mark_seconds`.
    """
    names, at = calls.collect_schema().names(), nw.col("at_us")
    second, seconds = at // _SECOND_US, nw.col("second").n_unique()
    if "is_new_second" in names:
        second, seconds = nw.col("is_new_second"), nw.col("second").sum()
    cached = nw.col("cached_tokens") + nw.col("cache_write_tokens")
    is_overfull = (cached > nw.col("prompt_tokens")).cast(nw.Int64)
    is_known = ASSUMED not in names
    assumed = nw.lit(0, nw.Int64) if is_known else nw.col(ASSUMED).fill_null(0)
    named: tuple[nw.Expr, ...] = ()
    counted: tuple[nw.Expr, ...] = ()
    if UNKNOWN in names:
        names_of_fields = nw.col(UNKNOWN).fill_null("")
        named = (
            names_of_fields.alias(UNKNOWN),
            (names_of_fields != "").cast(nw.Int64).alias("unknown"),
            nw.col(UNKNOWN_LARGEST).fill_null(0).alias(UNKNOWN_LARGEST),
        )
        counted = nw.col(UNKNOWN, UNKNOWN_LARGEST).max(), nw.col("unknown").sum()
    return (
        calls.select(
            *keys,
            "at_us",
            (at // DAY_US).alias("day"),
            second.alias("second"),
            is_overfull.alias("overfull"),
            (nw.col("prefix_hash") != "").cast(nw.Int64).alias("hashed"),
            assumed.alias("assumed"),
            (nw.col("prompt_tokens") + nw.col("completion_tokens")).alias("tokens"),
            *named,
        )
        .group_by(*keys, "day")
        .agg(
            nw.len().alias("calls"),
            at.min().alias("first_us"),
            at.max().alias("last_us"),
            seconds.alias("seconds"),
            nw.col("overfull", "hashed", "assumed", "tokens").sum(),
            *counted,
        )
    )
