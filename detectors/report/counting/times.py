"""Times as the report writes them."""

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US: Final = 86_400_000_000


def iso_time(microseconds: int) -> str:
    """Format as ISO 8601 in UTC, with as many decimals of a second as needed."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat().replace("+00:00", "Z")
