"""The calls of the sample log, which the demo and the seeded account send."""

from pathlib import Path

from detectors.contract import UsageRecord
from detectors.formats import read_chunks, records_of
from service.cli.options import CommandError

SAMPLE = Path(__file__).parents[3] / "examples" / "sample-usage.jsonl"


def read_sample() -> list[UsageRecord]:
    """Return the records of the sample log, which only a checkout has."""
    try:
        with SAMPLE.open("rb") as file:
            return [record for chunk in read_chunks(file) for record in records_of(chunk.columns)]
    except FileNotFoundError:
        raise CommandError("the sample log is missing; run this from a source checkout") from None
