"""The sample account with the calls of a few routes: each batch and audit is there, and short."""

from collections.abc import Iterator
from datetime import date
from typing import Final

from detectors.contract.record import UsageRecordV2
from service.cli.sample.calls import (
    CACHED_ROUTE,
    FIXED_ROUTE,
    RETURNED_ROUTE,
    UNUSUAL_ROUTE,
    make_calls,
)

FEW_ROUTES: Final = (FIXED_ROUTE, RETURNED_ROUTE, UNUSUAL_ROUTE, CACHED_ROUTE)


def make_few_calls(last: date) -> Iterator[list[UsageRecordV2]]:
    """Yield the calls of these routes on each day."""
    for day in make_calls(last):
        yield [call for call in day if call.tag in FEW_ROUTES] or day[:1]
