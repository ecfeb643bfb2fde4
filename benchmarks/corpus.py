"""Planted waste among clean calls: how much of it is found, and what is claimed elsewhere.

    python -m benchmarks.corpus [calls …]

One row per kind of waste and number of calls. Dollars are those observed in a week. The targets:
within 1% of the planted waste, and less than 1% of the clean spend claimed.
"""

import sys

from tests.detectors.corpus.harvest import harvest
from tests.detectors.corpus.planted import PLANTS

SIZES = (1_000, 100_000, 1_000_000)
HEADINGS = ("kind of waste", "calls", "planted", "found", "off by", "clean spend", "claimed of it")


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or SIZES
    print(_line(HEADINGS))
    for plant in PLANTS:
        for calls in sizes:
            reaped = harvest(plant, calls)
            name = " ".join(filter(None, (plant.detector, plant.kind)))
            cells = (
                name,
                f"{calls:,}",
                f"${reaped.planted_usd:,.4f}",
                f"${reaped.found_usd:,.4f}",
                f"{reaped.miss:.3%}",
                f"${reaped.clean_usd:,.2f}",
                f"{reaped.false_claim:.3%}",
            )
            print(_line(cells))


def _line(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return f"{first:<36}" + "".join(f"{cell:>15}" for cell in others)


if __name__ == "__main__":
    main()
