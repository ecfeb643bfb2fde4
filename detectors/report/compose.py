"""What all findings together would save, when several of them concern the same call.

Savings of overlapping findings are composed, never added: once a call is not made at all, nothing
more can be saved on it.
"""

from collections.abc import Sequence
from decimal import Decimal

import narwhals.stable.v2 as nw

from detectors.engines import Calls


def compose_savings(flagged: Sequence[Calls]) -> Calls:
    """Each flagged call's `combined_usd`, given what each detector flagged.

    With s a detector's saving on a call of cost c, this is c (1 - the product of all 1 - s/c). A
    saving is at most the cost, and negative where a fix makes this call dearer. `step_0` and so on
    are what each detector saves of what those before it leave; they add up to the combined saving.
    """
    names = [f"saving_{place}" for place in range(len(flagged))]
    # Detectors side by side in columns: sums of a call's few terms then have a fixed order.
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
    for place, name in enumerate(names):
        saving = nw.min_horizontal(name, "cost_usd")
        steps.append((left * saving).alias(f"step_{place}"))
        left = left * (1.0 - saving / nw.col("cost_usd"))
    combined = (nw.col("cost_usd") * (1.0 - left)).alias("combined_usd")
    return savings.select("number", combined, *steps)


def clip_savings(saved_usd: Decimal, spent_usd: Decimal) -> Decimal:
    """Savings no less than nothing and no more than everything."""
    return min(max(saved_usd, Decimal(0)), spent_usd)
