"""The calls of the sample log, which the demo and the seeded account send."""

from detectors.contract import UsageRecord
from detectors.formats import read_chunks, records_of
from service.config.resources import RESOURCES

SAMPLE = RESOURCES / "examples" / "sample-usage.jsonl"


def read_sample() -> list[UsageRecord]:
    """Return the records of the sample log."""
    with SAMPLE.open("rb") as file:
        return [record for chunk in read_chunks(file) for record in records_of(chunk.columns)]
