"""How the audit of an account grows: 1,000 to 100,000,000 stored calls, in memory and in parts.

    python -m benchmarks.growth.account [--equal-routes N] [CALLS …]

The files are as compaction stores them: 400 routes, the largest with 5% of the calls, or some of
equal size, over up to 30 days. Every audit is a process of its own; its time begins when it has
imported what it needs.
100,000,000 calls take 1.4 GB of disk, and ten minutes to write.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.running import child, print_machine
from detectors.frames.parts import ONE_PART_CALLS
from detectors.frames.usage_log import CALLS
from detectors.report.account import write_calls
from detectors.report.account.call_files import MANY_CALLS

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
DAYS: Final = 30
ROUTES: Final = 400
FIRST: Final = datetime(2026, 10, 1, tzinfo=UTC)
MODELS: Final = (
    ("openai", "gpt-4.1"),
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-4.1-mini"),
    ("google", "gemini-2.5-pro"),
    ("google", "gemini-2.5-flash"),
)
HASHES: Final = 900
_AUDIT: Final = """
import resource, sys, time
from datetime import UTC, datetime
from pathlib import Path
from detectors import PriceBook  # before Polars, whose memory it sets
from detectors.contract import CallWindow
from detectors.report.account import Terms, audit_window
terms = Terms.of(PriceBook(), "", {})
window = CallWindow(days=40, now=datetime(2027, 1, 1, tzinfo=UTC))
began = time.perf_counter()
audited = audit_window(sorted(Path(sys.argv[1]).iterdir()), window, terms)
seconds = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
print(audited.report.audit.records, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("calls", type=int, nargs="*", help="sizes of the account")
    parser.add_argument("--equal-routes", type=int, metavar="N", help="routes of equal size")
    arguments = parser.parse_args()
    print_machine()
    table = Table("calls", "seconds", "microseconds per call", "processor seconds", "peak MB")
    for row in measure(arguments.calls or SIZES, arguments.equal_routes):
        table.add_row(*row)
        print(*row, flush=True)
    Console(width=120).print(table)


def measure(sizes: Iterable[int], equal_routes: int | None) -> Iterator[tuple[str, ...]]:
    for calls in sizes:
        with tempfile.TemporaryDirectory(prefix="tallystick-growth-") as folder:
            write_files(Path(folder), calls, equal_routes)
            output = child(("-c", _AUDIT), Path(folder)).output
        records, seconds, processor, peak_kb = map(float, output.split())
        yield (
            f"{records:,.0f}",
            f"{seconds:.2f}",
            f"{seconds / calls * 1e6:.2f}",
            f"{processor:.1f}",
            f"{peak_kb / 1_000:,.0f}",
        )


def write_files(folder: Path, calls: int, equal_routes: int | None) -> None:
    """Write a file for each day, or for each thousand calls of few.

    Days share a file where calls that are audited in parts would be too few for order of bucket:
    such files stay in memory, which would compare two ways and not two sizes.
    """
    days = max(min(DAYS, calls // 1_000), 1)
    daily = calls // days
    together = -(-MANY_CALLS // daily) if calls > ONE_PART_CALLS else 1
    for first in range(0, days, together):
        own = range(first, min(first + together, days))
        with (folder / f"{first:02}.parquet").open("wb") as file:
            write_calls(pl.concat(calls_of_day(day, daily, equal_routes) for day in own), file)


def calls_of_day(day: int, calls: int, equal_routes: int | None) -> pl.DataFrame:
    """Return calls in order of time; equal arguments give equal calls."""
    number = pl.int_range(calls, dtype=pl.UInt64)

    def drawn(salt: int) -> pl.Expr:
        return (number.hash(DAYS * salt + day) % 10_000_000).cast(pl.Float64) / 1e7

    routes = pl.DataFrame(
        [(f"route-{n}", *MODELS[n % len(MODELS)]) for n in range(equal_routes or ROUTES)],
        ["tag", "provider", "model"],
        orient="row",
    )
    hashes = pl.Series([sha256(str(n).encode()).hexdigest() for n in range(HASHES)] + [""])
    began = int((FIRST + timedelta(days=day)).timestamp() * 1e6)
    kind = (drawn(4) * 1_000).cast(pl.Int64)
    frame = pl.select(
        (began + number.cast(pl.Int64) * (86_400_000_000 // calls)).alias("ts"),
        (drawn(1) * equal_routes if equal_routes else drawn(1) ** 2 * ROUTES)
        .cast(pl.UInt32)
        .alias("route"),
        pl.format("req-{}-{}", pl.lit(day), number).alias("request_id"),
        (200 + drawn(2) ** 3 * 12_000).cast(pl.Int64).alias("prompt_tokens"),
        (5 + drawn(3) ** 4 * 1_500).cast(pl.Int64).alias("completion_tokens"),
        kind.alias("kind"),
    ).with_columns(
        pl.lit(hashes).gather(pl.min_horizontal("kind", pl.lit(HASHES))).alias("prefix_hash"),
        pl.when(pl.col("kind") < 200)
        .then(pl.col("prompt_tokens") // 2)
        .otherwise(0)
        .alias("cached_tokens"),
        pl.when(pl.col("kind") % 3 == 0).then(4_096).otherwise(0).alias("declared_max_tokens"),
        pl.lit("").alias("endpoint"),
        pl.lit("").alias("service_tier"),
        pl.lit(0).alias("cache_write_tokens"),
        pl.lit(None).alias("latency_ms"),
        pl.lit("import").alias("import_id"),
    )
    labelled = pl.concat([frame, routes[frame["route"]]], how="horizontal")
    typed = labelled.with_columns(pl.col(name).cast(kind) for name, kind in CALLS.items())
    return typed.select(*CALLS.names(), "import_id")


if __name__ == "__main__":
    main()
