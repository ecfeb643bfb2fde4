"""How many machines, bytes and dollars an installation needs, from what was measured.

Processor time is what limits it; memory and disks follow. Each input names its source, so that you
can put in your own. Prices are round assumptions of November 2026 and no quotes.
"""

import math
from dataclasses import dataclass
from typing import Final, Self

SECONDS_PER_DAY: Final = 86_400
BILLION: Final = 1e9
# One core does this share of its time: the rest is for peaks of a minute and for restarts.
UTILIZATION: Final = 0.5
# The busiest hour, as a multiple of the day's mean.
PEAK: Final = 3.0
# Days for which things are kept by default, see "Retention" in docs/operations.md.
RAW_DAYS, REPORT_DAYS, CALL_DAYS = 7, 30, 400
WINDOW_DAYS: Final = 30
CORE_HOUR_USD, OBJECT_GB_MONTH_USD, DISK_GB_MONTH_USD = 0.045, 0.023, 0.12
HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True)
class Cost:
    """What a batch costs: a fixed part, and one for each of its calls."""

    per_batch: float
    per_call: float

    @classmethod
    def between(cls, few: int, cost: float, many: int, more: float) -> Self:
        """Return the line through two measured sizes of batches."""
        per_call = (more - cost) / (many - few)
        return cls(max(cost - few * per_call, 0.0), per_call)

    def of(self, batches: float, calls: float) -> float:
        return self.per_batch * batches + self.per_call * calls


# `python -m benchmarks.load --measure` on two cores: seconds of processor time, or bytes.
MEASURED: Final = {
    "bytes: calls, before merging": Cost(5_851, 15),
    "bytes: records": Cost(0, 230),
    "postgresql: audit": Cost(4.5e-3, 8.9e-6),
    "postgresql: ingest": Cost(1.4e-3, 0),
    "web: ingest": Cost(6.5e-3, 2.2e-6),
    "worker: audit": Cost(10.6e-3, 32.6e-6),
}
# `python -m benchmarks.account` with 10,000,000 calls: seconds of processor time and bytes a call.
ACCOUNT_AUDIT_SECONDS, MERGING_SECONDS, MERGED_BYTES = 1.25e-6, 12e-6, 17.0
# Spark takes five to ten times Polars' processor time; accounts above so many calls need it.
SPARK_FACTOR, POLARS_CALLS = 7.5, 10_000_000
# `python -m benchmarks.account.storage`: bytes in PostgreSQL that stay of a batch, and that go with
# its report. Spend by day has 5,500 bytes for each route and day in the account of `up --seed`.
ROW_BYTES, REPORT_BYTES, SPEND_BYTES = 1_600.0, 2_500.0, 5_500.0


@dataclass(frozen=True)
class Load:
    accounts: int
    calls_per_day: int
    calls_per_batch: int
    routes: int = 40  # of each account

    @property
    def calls(self) -> float:
        return float(self.accounts * self.calls_per_day)

    @property
    def batches(self) -> float:
        return self.calls / self.calls_per_batch

    @property
    def window_calls(self) -> float:
        return float(self.calls_per_day * WINDOW_DAYS)


@dataclass(frozen=True)
class Needs:
    """Cores of each kind of process, bytes after 400 days, and dollars per month."""

    requests_per_second: float
    web_cores: float
    worker_cores: float
    database_cores: float
    database_bytes: float
    blob_bytes: float

    @property
    def cores(self) -> int:
        return sum(map(math.ceil, (self.web_cores, self.worker_cores, self.database_cores)))

    @property
    def dollars(self) -> float:
        return (
            self.cores * CORE_HOUR_USD * HOURS_PER_MONTH
            + self.database_bytes / BILLION * DISK_GB_MONTH_USD
            + self.blob_bytes / BILLION * OBJECT_GB_MONTH_USD
        )


def needs_of(load: Load) -> Needs:
    """Return what the load needs with one audit of each account a day."""
    return Needs(
        requests_per_second=load.batches * PEAK / SECONDS_PER_DAY,
        web_cores=_cores(_spent(load, "web: ingest"), PEAK),
        worker_cores=_cores(_spent(load, "worker: audit") + _daily_work(load), 1.0),
        database_cores=_cores(
            _spent(load, "postgresql: ingest") + _spent(load, "postgresql: audit"), PEAK
        ),
        database_bytes=(
            load.batches * (CALL_DAYS * ROW_BYTES + REPORT_DAYS * REPORT_BYTES)
            + load.accounts * load.routes * CALL_DAYS * SPEND_BYTES
        ),
        blob_bytes=(
            RAW_DAYS * _spent(load, "bytes: records")
            + REPORT_DAYS * _spent(load, "bytes: calls, before merging")
            + CALL_DAYS * load.calls * MERGED_BYTES
        ),
    )


def _spent(load: Load, kind: str) -> float:
    return MEASURED[kind].of(load.batches, load.calls)


def _daily_work(load: Load) -> float:
    """Return the seconds a day of merging files and of auditing accounts, which can wait."""
    factor = 1.0 if load.window_calls <= POLARS_CALLS else SPARK_FACTOR
    audit = load.window_calls * ACCOUNT_AUDIT_SECONDS * factor
    return load.calls * MERGING_SECONDS + load.accounts * audit


def _cores(seconds_per_day: float, peak: float) -> float:
    return seconds_per_day * peak / SECONDS_PER_DAY / UTILIZATION
