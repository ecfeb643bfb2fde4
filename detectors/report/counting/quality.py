"""How far the figures of a report can be trusted."""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import UNSET

from detectors.contract import FIELD_NAME, DataQuality, UnknownField
from detectors.report.counting.records import Records
from detectors.report.impacts import Group

_DECIMALS = 6


def measure_quality(
    log: Records, groups: Sequence[Group], is_equivalent: Callable[[Group], bool]
) -> DataQuality:
    """Measure the quality of a log with these priced groups.

    The dollars of an equivalent group are a list-price cost and not a bill.
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
        unknown_fields=tuple(map(_unknown, log.unknown)) or UNSET,
        routes=len(routes),
        routes_used_once=sum(calls == 1 for calls in routes.values()),
    )


def _unknown(counted: tuple[str, int, int]) -> UnknownField:
    name, calls, largest = counted
    # A name is shown only if it looks like one: a log has it from someone else's program.
    return UnknownField(name if FIELD_NAME.fullmatch(name) else "", calls, largest)


def _spend(groups: Sequence[Group]) -> Decimal:
    return sum((group.spend_usd for group in groups), Decimal(0))


def _pct(part: Decimal | int, whole: Decimal | int, *, empty: float = 0.0) -> float:
    return round(float(Decimal(part) / Decimal(whole) * 100), _DECIMALS) if whole else empty
