"""How a finding's dollars were reckoned: its detector's formula with the numbers filled in."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from detectors.contract import Thresholds
from detectors.prices.rates import TOKENS_PER_MTOK, Rates
from detectors.report.impacts import Impact
from detectors.rules.detector import INFORMATIONAL
from detectors.wording.figures import fine_usd, percent

# By detector and kind: what is summed over the flagged calls. `{cost}` is what they cost.
_SUMMED: Final[Mapping[tuple[str, str], str]] = {
    ("d1_model_overkill", ""): (
        "what {calls} cost less at the rates of {sibling}, {cost} − {rest} = {saving}"
    ),
    ("d2_missed_caching", "uncached_prefix"): (
        "up to {prefix} tokens × (input rate − cache-read rate: {discount}) for each read that "
        "the cache would have served, less the surcharge of each write ({surcharge}), over "
        "{calls} that cost {cost}: {saving}"
    ),
    ("d2_missed_caching", "unhashed_prefix"): (
        "{unhashed_share} of a short prompt × (input rate − cache-read rate: {discount}) for each "
        "read that the cache would have served, less the surcharge of each write ({surcharge}), "
        "over {calls} that cost {cost}: {saving}"
    ),
    ("d2_missed_caching", "unread_writes"): (
        "{writes} tokens written × the surcharge ({surcharge}) − {reads} tokens read × their "
        "discount ({discount}) = {saving}"
    ),
    ("d3_context_bloat", ""): (
        "{excess_share} × (prompt tokens − those of the usual prompt) × input rate ({input}), "
        "over {calls} that cost {cost}: {saving}"
    ),
    ("d4_duplicate_calls", "same_prompt"): "the full cost of {calls}: {saving}",
    ("d4_duplicate_calls", "same_shape"): "the full cost of {calls}: {saving}",
    ("d5_max_tokens_misfit", "truncated"): ("{cut_share} × {cost}, the cost of {calls} = {saving}"),
    ("d6_chatty_loop", ""): (
        "{loop_share} × prompt tokens × input rate ({input}), over {calls} that cost {cost}: "
        "{saving}"
    ),
}


def write_formula(
    impact: Impact,
    summary: Mapping[str, Any],
    *,
    rates: Rates,
    sibling: str | None,
    days: int,
    thresholds: Thresholds,
) -> str:
    """Empty where no dollars are claimed. `rates` are those of the group's last call.

    They are named where dollars are a product with them, though a log may span several prices: the
    sums are always of each call's own.
    """
    if impact.kind.confidence == INFORMATIONAL:
        return ""
    cost, month = summary["cost_usd"], thresholds.days_per_month
    summed = _SUMMED[impact.detector.id, impact.kind.name].format(
        calls=f"{impact.calls:,} {'call' if impact.calls == 1 else 'calls'}",
        sibling=sibling,
        cost=fine_usd(cost),
        rest=fine_usd(cost - impact.observed_usd),
        saving=fine_usd(impact.observed_usd),
        writes=f"{summary['cache_write_tokens']:,}",
        reads=f"{summary['cached_tokens']:,}",
        prefix=f"{thresholds.d2_prefix_tokens:,}",
        input=_per_mtok(rates.input_usd),
        discount=_per_mtok(rates.input_usd - rates.cache_read_usd),
        surcharge=_per_mtok(rates.cache_write_usd - rates.input_usd),
        unhashed_share=percent(thresholds.d2_unhashed_prompt_share * 100),
        excess_share=percent(thresholds.d3_saving_share * 100),
        cut_share=percent(thresholds.d5_truncated_saving_share * 100),
        loop_share=percent(thresholds.d6_saving_share * 100),
    )
    observed = f"{days:,} {'day' if days == 1 else 'days'}"
    monthly = fine_usd(impact.monthly_usd)
    return f"{_capital(summed)} in {observed}; × {month} / {days:,} = {monthly} a month."


def _per_mtok(usd_per_token: float) -> str:
    """$2.50 a million, without the last bits of a float."""
    return f"{fine_usd(Decimal(f'{usd_per_token * TOKENS_PER_MTOK:.6f}'))} a million"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
