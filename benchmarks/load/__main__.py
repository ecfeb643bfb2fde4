"""What an installation of some size needs, and what a batch costs.

    python -m benchmarks.load [--accounts 1 100 10000] [--calls-per-day N] [--calls-per-batch N]
    python -m benchmarks.load --measure

The first prints the table of docs/scaling.md from the inputs in `benchmarks/load/model.py`; the
second measures those of batches on this machine, in two or three minutes.
"""

import argparse

from rich.console import Console
from rich.table import Table

from benchmarks.load.model import BILLION, Cost, Load, needs_of

HEADINGS = (
    *("accounts", "requests/s at peak", "web cores", "worker cores", "database cores"),
    *("database", "blobs", "per month"),
)


def describe(load: Load) -> tuple[str, ...]:
    """Return the cells of a load's row."""
    needs = needs_of(load)
    return (
        f"{load.accounts:,}",
        f"{needs.requests_per_second:,.1f}",
        f"{needs.web_cores:,.2f}",
        f"{needs.worker_cores:,.2f}",
        f"{needs.database_cores:,.2f}",
        f"{needs.database_bytes / BILLION:,.0f} GB",
        f"{needs.blob_bytes / BILLION:,.0f} GB",
        f"${needs.dollars:,.0f}",
    )


def describe_cost(kind: str, cost: Cost) -> tuple[str, str, str]:
    """Return the cells of a cost's row: bytes, milliseconds per batch, microseconds per call."""
    if kind.startswith("bytes"):
        return kind, f"{cost.per_batch:,.0f} bytes", f"{cost.per_call:,.0f} bytes"
    return kind, f"{cost.per_batch * 1e3:.1f} ms", f"{cost.per_call * 1e6:.1f} µs"


def print_needs(arguments: argparse.Namespace) -> None:
    table = Table(*HEADINGS, title=f"{arguments.calls_per_day:,} calls a day and account")
    for accounts in arguments.accounts:
        table.add_row(*describe(Load(accounts, arguments.calls_per_day, arguments.calls_per_batch)))
    Console(width=120).print(table)


def print_costs() -> None:
    from benchmarks.load.measuring import measure  # the model needs no servers

    table = Table(
        "kind", "per batch", "per call", title="Cost of a batch: processor time, or bytes"
    )
    for kind, cost in measure().items():
        table.add_row(*describe_cost(kind, cost))
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--accounts", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--calls-per-day", type=int, default=1_000_000)
    parser.add_argument("--calls-per-batch", type=int, default=500)
    parser.add_argument("--measure", action="store_true", help="measure the cost of a batch")
    arguments = parser.parse_args()
    print_costs() if arguments.measure else print_needs(arguments)


if __name__ == "__main__":
    main()
