"""How the time per call grows with the size of a log: 10,000 to 10,000,000 calls of JSON Lines.

    python -m benchmarks.growth [CALLS …] [--runs N] [--limit SECONDS] [--write] [--loaded]

Every program is a whole process; the best of several runs counts. They are an audit, DuckDB's read
and sum of the same file, a `json.loads` loop that sums tokens and prices, and the six rules in
pandas. A program that takes longer than the limit, or more memory than there is, is stopped,
and not run on larger logs.
`--write` updates docs/performance.md and its chart; `--loaded` says there that other programs ran
at the same time. The largest log has 2 GB, in a temporary folder.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.growth.chart import draw
from benchmarks.growth.programs import AUDIT, LOOP, PANDAS, READ, Row, measure
from benchmarks.running import describe_machine, print_machine

SIZES: Final = (10_000, 100_000, 1_000_000, 10_000_000)
ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = Path(__file__).with_name("chart.svg")
BEGIN, END = "<!-- begin: python -m benchmarks.growth -->", "<!-- end -->"
PROGRAMS: Final = (AUDIT, READ, LOOP, PANDAS)
LOADED: Final = "**Not a quiet machine:** other programs ran at the same time. "


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("calls", type=int, nargs="*", help="sizes of the logs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one run")
    parser.add_argument("--write", action="store_true", help="update docs/performance.md")
    parser.add_argument("--loaded", action="store_true", help="say that the machine was not quiet")
    arguments = parser.parse_args()
    print_machine()
    rows = [*measure(arguments.calls or SIZES, arguments.runs, arguments.limit)]
    print_rows(rows)
    if arguments.write:
        note = LOADED if arguments.loaded else ""
        PAGE.write_text(write_section(PAGE.read_text(), rows, describe_machine(), note))
        CHART.write_text(draw(rows))


def print_rows(rows: Sequence[Row]) -> None:
    table = Table(title="Microseconds per call (times of DuckDB)")
    for heading in ("calls", *PROGRAMS):
        table.add_column(heading, justify="right")
    for cells in _cells(rows):
        table.add_row(*cells)
    Console(width=120).print(table)


def write_section(page: str, rows: Sequence[Row], machine: str, note: str) -> str:
    """Return the page with these figures between its two markers."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    if not after:
        raise ValueError(f"the page has no section {BEGIN}")
    section = [
        BEGIN,
        f"{note}{machine[0].upper()}{machine[1:]}. Microseconds per call, and times of DuckDB:",
        "",
        f"| {' | '.join(('calls', *PROGRAMS))} |",
        "|---:" * (len(PROGRAMS) + 1) + "|",
        *(f"| {' | '.join(cells)} |" for cells in _cells(rows)),
        END,
    ]
    return before + "\n".join(section) + after


def _cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    for row in rows:
        yield [f"{row.calls:,}", *(_cell(row, name) for name in PROGRAMS)]


def _cell(row: Row, program: str) -> str:
    taken, times = row.microseconds.get(program), row.times_duckdb(program)
    if taken is None:
        return row.stopped.get(program, "not run")
    digits = 1 if taken >= 10 else 2
    return f"{taken:.{digits}f}" + ("" if program == READ or times is None else f" ({times:.1f} ×)")


if __name__ == "__main__":
    main()
