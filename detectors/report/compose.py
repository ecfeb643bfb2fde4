"""Combines the savings of all findings, which may overlap on the same call.

Overlapping savings are composed, never added: a call that is no longer made cannot save more.
"""

from collections.abc import Sequence
from decimal import Decimal

import narwhals.stable.v2 as nw

from detectors.engines import Calls


def compose_savings(flagged: Sequence[Calls]) -> Calls:
    """Return the `combined_usd` of each flagged call.

    With s a detector's saving on a call of cost c, this is c (1 - the product of all 1 - s/c). A
    saving is at most the cost, and negative if a fix makes this call more expensive. `step_0` and
    so on are what each detector saves of the cost that the detectors before it leave; they add up
    to the combined saving.
    """
    names = [f"saving_{index}" for index in range(len(flagged))]
    # One column per detector, so that the terms of a call are summed in a fixed order.
    wide = [
        calls.select(
            "number",
            "cost_usd",
            *[(nw.col("saving_usd") if own == name else nw.lit(0.0)).alias(own) for own in names],
        )
        for name, calls in zip(names, flagged, strict=True)
    ]
    savings = (
        nw.concat([calls.filter(nw.col("cost_usd") > 0) for calls in wide], how="vertical")
        .group_by("number")
        .agg(nw.col("cost_usd").max(), *[nw.col(name).sum() for name in names])
    )
    left, steps = nw.lit(1.0), []
    for index, name in enumerate(names):
        saving = nw.min_horizontal(name, "cost_usd")
        steps.append((left * saving).alias(f"step_{index}"))
        left = left * (1.0 - saving / nw.col("cost_usd"))
    combined = (nw.col("cost_usd") * (1.0 - left)).alias("combined_usd")
    return savings.select("number", combined, *steps)


def clip_savings(saved_usd: Decimal, spent_usd: Decimal) -> Decimal:
    """Limit savings to between zero and the spend."""
    return min(max(saved_usd, Decimal(0)), spent_usd)
