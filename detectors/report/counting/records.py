"""Counts and times of all records of some logs, priced or not, and their projections."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Self

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import InvalidRows, Thresholds
from detectors.engines import Calls, Engine, Row
from detectors.formats.columns import ASSUMED, BILLING, UNKNOWN, UNKNOWN_LARGEST
from detectors.frames.usage_log import Counted, ReadRows
from detectors.report import spend
from detectors.report.counting.billing import have_plan, is_included
from detectors.report.counting.projection import DAY_US, DayOfCalls, Projection

_SECOND_US: Final = 1_000_000
# Up to so many calls, planning the queries takes longer than computing them.
FEW_CALLS: Final = 20_000
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
            unknown=_unknown(unknown),
            skipped=sorted(log.dropped.items(), key=lambda each: (-each[1], each[0])),
            tokens=sum(int(row["tokens"]) for row in days),
            projection=Projection.of(
                [_day(row) for row in days],
                thresholds,
                log.least_days,
                keeps_newest=log.is_account,
            ),
            models=models,
        )


def _unknown(rows: list[Row]) -> list[tuple[str, int, int]]:
    """Return the names of unknown numbers, with their calls and the largest number in these."""
    calls, largest = Counter[str](), dict[str, int]()
    for row in rows:
        for name in str(row[UNKNOWN]).split():
            calls[name] += int(row["calls"])
            largest[name] = max(largest.get(name, 0), int(row[UNKNOWN_LARGEST]))
    ranked = sorted(calls, key=lambda name: (-calls[name], name))[:_MOST_UNKNOWN]
    return [(name, calls[name], largest[name]) for name in ranked]


def _day(row: Row) -> DayOfCalls:
    return DayOfCalls(
        calls=row["calls"],
        first_us=row["first_us"],
        last_us=row["last_us"],
        seconds=row["seconds"],
    )


class CountedCalls(msgspec.Struct):
    """The calls of some logs without duplicate rows, until they are taken, and the logs' counts.

    The column in `keys` numbers the logs; there is none for a single log. Calls that a plan
    includes are apart from here on, so that no sum or rule can mix them with those on an invoice.
    """

    logs: list[Records]
    keys: tuple[str, ...]
    _calls: list[Calls]
    _included: list[Calls]

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
        calls, included, rows = split_plans(calls, logs[0].counted, engine, keys)
        plan_days = [row for each in included for row in engine.fetch(count_days(each, keys))]
        named = [row for each in included for row in count_unknown(each, engine, keys)]
        tables = (rows.days, rows.models, plan_days, [*rows.unknown, *named])
        by_log = (_by_log(each, len(logs)) for each in tables)
        counted = [
            Records.of(
                log, sorted(own, key=lambda row: row["day"]), models, plans, unknown, thresholds
            )
            for log, own, models, plans, unknown in zip(logs, *by_log, strict=True)
        ]
        for number, log in enumerate(counted):
            if log.projection.may_have_few(thresholds):
                window = calls.filter(
                    _is_in(log.projection), *(nw.col(key) == number for key in keys)
                )
                (found,) = engine.fetch(window.select(nw.len().alias("calls")))
                log.projection = log.projection.with_calls(found["calls"], thresholds)
        return cls(counted, keys, [calls], included)

    def take_included(self) -> Calls | None:
        """Return the calls that a plan includes once; None if there are none."""
        return self._included.pop() if self._included else None

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


def split_plans(
    calls: Calls, counted: Counted | None, engine: Engine, keys: Sequence[str] = ()
) -> tuple[Calls, list[Calls], Counted]:
    """Return the metered calls, those that a plan includes if there are any, and the counts."""
    if counted is None:
        models = spend.count_models(calls, engine, keys)
        has_included = have_plan(models)
        if BILLING in calls.collect_schema().names():
            number = is_included(calls).cast(nw.Int64).sum().alias("included")
            has_included = bool(engine.fetch(calls.select(number))[0]["included"])
    else:
        models, has_included = counted.models, counted.has_included
    included = list[Calls]()
    if has_included:
        is_plan = is_included(calls)
        included.append(engine.keep(calls.filter(is_plan)))
        calls = engine.keep(calls.filter(~is_plan))
        models = spend.count_models(calls, engine, keys) if counted is None else models
    if counted is None:
        days = engine.fetch(count_days(calls if keys else engine.mark_seconds(calls), keys))
        counted = Counted(days=days, models=models, unknown=count_unknown(calls, engine, keys))
    return calls, included, counted


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
        )
        .group_by(*keys, "day")
        .agg(
            nw.len().alias("calls"),
            at.min().alias("first_us"),
            at.max().alias("last_us"),
            seconds.alias("seconds"),
            nw.col("overfull", "hashed", "assumed", "tokens").sum(),
        )
    )


def count_unknown(calls: Calls, engine: Engine, keys: Sequence[str] = ()) -> list[Row]:
    """Count the calls of each log by the names of the numbers that we don't know in their usage."""
    names = calls.collect_schema().names()
    if UNKNOWN not in names:
        return []
    # A column without a value costs nothing.
    largest = nw.col(UNKNOWN_LARGEST).fill_null(0) if UNKNOWN_LARGEST in names else nw.lit(0)
    named = calls.filter(nw.col(UNKNOWN).fill_null("") != "").with_columns(
        largest.cast(nw.Int64).alias(UNKNOWN_LARGEST)
    )
    grouped = named.group_by(*keys, UNKNOWN).agg(
        nw.len().alias("calls"), nw.col(UNKNOWN_LARGEST).max()
    )
    return engine.fetch(grouped)
