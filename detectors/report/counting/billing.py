"""Which calls are billed, and which are included in a plan: money and value are never summed.

A call is included where its record says so. Without a label, it is if its provider is the name of a
flat-rate plan.
"""

from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from detectors.engine import Calls
from detectors.formats.columns import BILLING
from detectors.prices import model_data

_INCLUDED: Final = "included"


def is_included(calls: Calls) -> pl.Expr:
    """Return whether each call is included in a plan; its dollars are value and no spend."""
    is_plan = pl.col("provider").is_in(model_data.flat_rate_labels())
    if BILLING not in calls.collect_schema().names():
        return is_plan
    billing = pl.col(BILLING)
    return (billing == _INCLUDED) | ((billing == "") & is_plan)


def have_plan(models: Iterable[dict[str, Any]]) -> bool:
    """Check whether rows with a provider name a flat-rate plan."""
    return any(model_data.is_flat_rate(row["provider"]) for row in models)
