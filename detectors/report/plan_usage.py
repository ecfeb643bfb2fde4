"""What the calls that a plan includes would have cost: by model and by route, never as spend."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.contract import LONGEST_LIST, PlanModel, PlanRoute, PlanUsage
from detectors.engines import Calls, Engine, Row
from detectors.prices.book import PriceBook
from detectors.prices.calls import LABELS, read_labels
from detectors.prices.table import Cells
from detectors.report.counting.projection import iso_time
from detectors.report.money import rounded, sum_usd, usd

_TOKENS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_COST: Final = "cost_usd"


def sum_plan_usage(
    included: Calls, book: PriceBook, engine: Engine, keys: Sequence[str] = ()
) -> dict[int, PlanUsage]:
    """Return the plan usage of each log that has some; `included` are calls of plans."""
    labelled = engine.keep(
        read_labels(included.with_columns(nw.lit(True).alias("in_window")), keys)
    )
    key = [*keys, *LABELS]
    at = nw.col("at_us")
    counts = labelled.group_by(*key).agg(
        nw.len().alias("calls"),
        nw.col(*_TOKENS).sum(),
        at.min().alias("first_us"),
        at.max().alias("last_us"),
    )
    cells = Cells.of(labelled, book)
    priced = cells.add_cost(cells.number(labelled, engine), engine)
    summed = sum_usd(
        priced.select(*key, _COST), _COST, by=key, others=[nw.len().alias("priced_calls")]
    )
    values = {tuple(row[name] for name in key): row for row in engine.fetch(summed)}
    by_log: dict[int, list[Row]] = defaultdict(list)
    for row in engine.fetch(counts):
        value = values.get(tuple(row[name] for name in key))
        row["unpriced_calls"] = row["calls"] - (value["priced_calls"] if value else 0)
        row["value_usd"] = usd(value, _COST) if value else Decimal(0)
        by_log[row.get("log", 0)].append(row)
    return {log: _plan_usage(rows) for log, rows in by_log.items()}


def _plan_usage(rows: Sequence[Row]) -> PlanUsage:
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
    counts = ("calls", "unpriced_calls", *_TOKENS)
    sums: dict[str, Any] = {name: sum(int(row[name]) for row in own) for name in counts}
    return sums | {"value_usd": rounded(sum((row["value_usd"] for row in own), Decimal(0)))}
