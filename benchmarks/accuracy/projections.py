"""How far monthly figures of short logs are from the truth: backtests on fourteen days of calls.

Days repeat a week's rhythm: nights are quiet, weekends quieter, at an office far more so than on
average. Arrivals, prompts and answers are drawn, or they are those of a real hour, replayed once an
hour and thinned to the rhythm.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median, quantiles

import polars as pl

import detectors
from detectors.wording.projection import STATED

START = datetime(2026, 10, 5, tzinfo=UTC)  # a Monday
DAYS = 14
HOUR = 3_600.0
WINDOWS = {"1 h": 1, "2 h": 2, "6 h": 6, "24 h": 24, "3 d": 72, "7 d": 168}
SHORT_HOURS = 6
AUDITS = {True: 150, False: 40}  # of short windows, whose months scatter, and of longer ones
GOLDEN = 0.618034  # spreads any number of windows evenly over hours and days
BAND_AUDITS = 40
# The hours of the logs that a kind of projection is made from, at most and at least.
KINDS = {"very rough": (1.1, 23.9), "rough": (24.1, 167.0)}
Arrival = tuple[float, int, int]  # seconds of the hour, prompt tokens, answer tokens


@dataclass(frozen=True, slots=True)
class Spread:
    """The predicted month of many windows, each divided by the true month."""

    low: float  # the 10th percentile
    median: float
    high: float  # the 90th percentile


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How far traffic swings around its average in a day, and its average on a day of the week."""

    swing: float
    weekday: float
    weekend: float

    def at(self, hour: int) -> float:
        """Return the traffic of an hour of the fortnight, 1 on average."""
        day, of_day = divmod(hour, 24)
        week = self.weekend if day % 7 >= 5 else self.weekday
        return week * (1 + self.swing * math.sin((of_day - 9) / 24 * 2 * math.pi))


RHYTHMS = {"a service": Rhythm(0.5, 1.08, 0.8), "an office": Rhythm(0.8, 1.2, 0.5)}
STEADY = RHYTHMS["a service"]


def drawn_hours(calls_per_hour: int, seed: int) -> Iterator[list[Arrival]]:
    rng = random.Random(seed)
    for hour in range(24 * DAYS):
        count = round(rng.gauss(1, 0.1) * calls_per_hour * STEADY.at(hour))
        yield [
            (rng.uniform(0, HOUR), round(rng.lognormvariate(7, 0.8)), rng.randint(20, 600))
            for _ in range(count)
        ]


def replayed_hours(
    calls: pl.DataFrame, per_hour: int, seed: int, rhythm: Rhythm = STEADY
) -> Iterator[list[Arrival]]:
    """Replay a real hour around the clock, stretched to a whole hour and thinned at random."""
    rng = random.Random(seed)
    times = calls["ts"].sort()
    offsets = (calls["ts"] - times[0]).dt.total_microseconds()
    offsets = offsets * (HOUR / (offsets.max() * (1 + 1 / calls.height)))
    columns = zip(offsets, calls["prompt_tokens"], calls["completion_tokens"], strict=True)
    arrivals = list(columns)
    share = per_hour / len(arrivals)
    for hour in range(24 * DAYS):
        keep = share * rhythm.at(hour)
        yield [arrival for arrival in arrivals if rng.random() < keep]


def as_frame(hours: Iterator[list[Arrival]], provider: str, model: str) -> pl.DataFrame:
    rows = [
        (START + timedelta(hours=hour, seconds=second), prompt, answer)
        for hour, arrivals in enumerate(hours)
        for second, prompt, answer in arrivals
    ]
    names = ["ts", "prompt_tokens", "completion_tokens"]
    frame = pl.DataFrame(rows, names, orient="row").sort("ts")
    return frame.with_columns(
        provider=pl.lit(provider), model=pl.lit(model), tag=pl.lit("backtest")
    )


def backtest(calls: pl.DataFrame) -> dict[str, Spread]:
    """Audit windows of every length at evenly spread times; compare their months to the truth."""
    truth = float(detectors.audit(calls).audit.total_spend_usd) * 30 / DAYS
    spreads = {}
    for name, hours in WINDOWS.items():
        latest = 24 * DAYS - hours
        count = AUDITS[hours <= SHORT_HOURS]
        starts = [latest * (number * GOLDEN % 1) for number in range(count)]
        months = [_month(_part(calls, start, hours)) for start in starts]
        ratios = [month / truth for month in months if month is not None]
        low, *_, high = quantiles(ratios, n=10, method="inclusive")
        spreads[name] = Spread(low, median(ratios), high)
    return spreads


def held(calls: pl.DataFrame, seed: int) -> dict[str, float]:
    """Return the share of projections inside the range that reports state, by kind."""
    rng = random.Random(seed)
    truth = float(detectors.audit(calls).audit.total_spend_usd) * 30 / DAYS
    shares = {}
    for kind, (shortest, longest) in KINDS.items():
        low, high = STATED[kind]
        lengths = [shortest * (longest / shortest) ** rng.random() for _ in range(BAND_AUDITS)]
        starts = [rng.uniform(0, 24 * DAYS - hours) for hours in lengths]
        months = [_month(_part(calls, *each)) for each in zip(starts, lengths, strict=True)]
        ratios = [month / truth for month in months if month is not None]
        shares[kind] = sum(low <= ratio <= high for ratio in ratios) / len(ratios)
    return shares


def _part(calls: pl.DataFrame, start: float, hours: float) -> pl.DataFrame:
    first = START + timedelta(hours=start)
    until = first + timedelta(hours=hours, minutes=2)  # a log of an hour is a little longer
    return calls.filter(pl.col("ts").is_between(first, until, closed="left"))


def _month(calls: pl.DataFrame) -> float | None:
    """Return the projected month, None where the report does not call its dollars monthly."""
    audit = detectors.audit(calls).audit
    return None if audit.projection == "none" else float(audit.projected_spend_usd)


def changes(calls: pl.DataFrame) -> dict[str, float]:
    """Return by how much the projection changes with an outlier, and across midnight."""
    day = _part(calls, 36, 24)
    long_ago = pl.lit(datetime(2001, 1, 1, tzinfo=UTC)).cast(day["ts"].dtype)
    others = {
        "with a call of 2001": pl.concat([day, day.head(1).with_columns(ts=long_ago)]),
        "7 hours later, across midnight": day.with_columns(ts=pl.col("ts") + timedelta(hours=7)),
    }
    months = {name: _month(other) for name, other in {"": day, **others}.items()}
    usual = months.pop("") or math.nan
    return {name: (month or math.nan) / usual - 1 for name, month in months.items()}


def medians_within(spreads: Sequence[Spread], low: float, high: float) -> bool:
    return all(low <= spread.median <= high for spread in spreads)
