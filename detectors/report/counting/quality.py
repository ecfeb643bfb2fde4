"""How far the figures of a report can be trusted."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import polars as pl
from msgspec import UNSET

from detectors.contract import (
    FIELD_NAME,
    LONGEST_LIST,
    DataQuality,
    MissingRate,
    ReportedCosts,
    ReportedModel,
    SkippedRows,
    UnknownField,
)
from detectors.engine import Calls, fetch
from detectors.formats.columns import REPORTED
from detectors.report.counting.records import Records
from detectors.report.impacts import Group
from detectors.report.money import rounded, sum_usd, usd

_DECIMALS = 6


def measure_quality(
    log: Records,
    groups: Sequence[Group],
    is_equivalent: Callable[[Group], bool],
    reported: Sequence[ReportedModel] = (),
    missing: Sequence[MissingRate] = (),
) -> DataQuality:
    """Measure the quality of a log with these priced groups.

    The dollars of an equivalent group are a list-price cost and not a bill. `reported` compares the
    costs that sources report, by group.
    """
    spent = _spend(groups)
    routes = Counter[str]()
    for group in groups:
        routes[group.route] += group.calls
    del routes[""]
    return DataQuality(
        priced_tokens_pct=_pct(sum(group.tokens for group in groups), log.tokens, empty=100.0),
        equiv_spend_pct=_pct(_spend([each for each in groups if is_equivalent(each)]), spent),
        untagged_spend_pct=_pct(_spend([each for each in groups if not each.route]), spent),
        hashed_calls_pct=_pct(log.hashed, log.count),
        assumed_input_calls=log.assumed or UNSET,
        future_calls=log.future or UNSET,
        # A name is shown only if it looks like one: a log has it from someone else's program.
        unknown_fields=tuple(
            UnknownField(name if FIELD_NAME.fullmatch(name) else "", calls, largest)
            for name, calls, largest in log.unknown
        )
        or UNSET,
        reported_costs=_add_reported(reported) if reported else UNSET,
        missing_rates=tuple(missing) or UNSET,
        skipped_rows=tuple(SkippedRows(*each) for each in log.skipped) or UNSET,
        routes=len(routes),
        routes_used_once=sum(calls == 1 for calls in routes.values()),
    )


def sum_reported(calls: Calls, groups: Mapping[int, Group]) -> dict[int, list[ReportedModel]]:
    """Return the costs that sources report and those of the same calls, by log."""
    found: dict[int, list[ReportedModel]] = defaultdict(list)
    if REPORTED not in calls.collect_schema().names():
        return found
    own = calls.filter(pl.col(REPORTED) >= 0).select("group", "cost_usd", REPORTED)
    others = [pl.len().alias("calls")]
    for row in fetch(sum_usd(own, "cost_usd", REPORTED, by=["group"], others=others)):
        group = groups[row["group"]]
        model = ReportedModel(
            provider=group.provider,
            model=group.model,
            calls=row["calls"],
            reported_usd=usd(row, REPORTED),
            spend_usd=usd(row, "cost_usd"),
        )
        found[group.log].append(model)
    return found


def _add_reported(reported: Sequence[ReportedModel]) -> ReportedCosts:
    found: dict[tuple[str, str], list[ReportedModel]] = defaultdict(list)
    for each in reported:
        found[each.provider, each.model].append(each)
    models = [
        ReportedModel(
            provider=provider,
            model=model,
            calls=sum(each.calls for each in own),
            reported_usd=rounded(sum((each.reported_usd for each in own), Decimal(0))),
            spend_usd=rounded(sum((each.spend_usd for each in own), Decimal(0))),
        )
        for (provider, model), own in found.items()
    ]
    models.sort(key=lambda each: (-abs(each.difference_usd), each.provider, each.model))
    return ReportedCosts(
        calls=sum(each.calls for each in models),
        reported_usd=sum((each.reported_usd for each in models), Decimal(0)),
        spend_usd=sum((each.spend_usd for each in models), Decimal(0)),
        models=tuple(models[:LONGEST_LIST]),
    )


def _spend(groups: Sequence[Group]) -> Decimal:
    return sum((group.spend_usd for group in groups), Decimal(0))


def _pct(part: Decimal | int, whole: Decimal | int, *, empty: float = 0.0) -> float:
    return round(float(Decimal(part) / Decimal(whole) * 100), _DECIMALS) if whole else empty
