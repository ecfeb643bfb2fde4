"""What the calls that a plan includes would have cost: by model and by route, never as spend."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl

from detectors.contract import LONGEST_LIST, PlanModel, PlanRoute, PlanUsage
from detectors.engine import Calls, Row
from detectors.prices.calls import LABELS, read_labels
from detectors.prices.table import Cells
from detectors.report.counting.counts import PLAN_USAGE, TOKENS, Queries
from detectors.report.counting.projection import iso_time
from detectors.report.money import rounded, sum_usd, usd

_COST: Final = "cost_usd"


def count_plan_usage(included: Calls, cells: Cells, keys: Sequence[str] = ()) -> Queries:
    """Count the calls of plans by route and model, with what those with a price would cost."""
    labelled = read_labels(included, keys)
    label = [*keys, *LABELS]
    at = pl.col("at_us")
    counted = labelled.group_by(label).agg(
        pl.len().cast(pl.Int64).alias("calls"),
        pl.col(TOKENS).sum(),
        at.min().alias("first_us"),
        at.max().alias("last_us"),
    )
    priced = cells.add_cost(cells.number(labelled)).select(*label, _COST)
    others = [pl.len().cast(pl.Int64).alias("priced_calls")]
    summed = sum_usd(priced, _COST, by=label, others=others)
    usage = counted.join(summed, on=label, how="left").with_columns(
        pl.col(LABELS).cast(pl.String), pl.col("priced_calls", "cost_usd_units").fill_null(0)
    )
    return {PLAN_USAGE: usage}


def plan_usage_of(rows: Sequence[Row]) -> PlanUsage:
    """Return the plan usage of a log with these rows of counts."""
    for row in rows:
        row["unpriced_calls"] = row["calls"] - row["priced_calls"]
        row["value_usd"] = usd(row, _COST)
    models = [
        PlanModel(provider=provider, model=model, **_sums(own))
        for (provider, model), own in _group(rows, lambda row: (row["provider"], row["model"]))
    ]
    routes = [
        PlanRoute(route=route, **_sums(own))
        for route, own in _group(rows, lambda row: row["route_label"])
    ]
    models.sort(key=lambda each: (-each.value_usd, each.provider, each.model))
    routes.sort(key=lambda each: (-each.value_usd, each.route))
    return PlanUsage(
        **_sums(rows),
        first_call=iso_time(min(row["first_us"] for row in rows)),
        last_call=iso_time(max(row["last_us"] for row in rows)),
        models=tuple(models[:LONGEST_LIST]),
        routes=tuple(routes[:LONGEST_LIST]),
    )


def _group(rows: Iterable[Row], key: Callable[[Row], Any]) -> Iterable[tuple[Any, list[Row]]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found.items()


def _sums(rows: Iterable[Row]) -> dict[str, Any]:
    own = list(rows)
    counts = ("calls", "unpriced_calls", *TOKENS)
    sums: dict[str, Any] = {name: sum(int(row[name]) for row in own) for name in counts}
    return sums | {"value_usd": rounded(sum((row["value_usd"] for row in own), Decimal(0)))}
