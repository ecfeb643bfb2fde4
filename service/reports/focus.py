"""Spend as rows of FOCUS 1.2 or 1.4, the FinOps Open Cost and Usage Specification.

A row is a day of one provider, model, route and environment. See decision 39 for the choices.
https://focus.finops.org
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from service.models.calls.spend import Line

KEYS: Final = ("day", "provider", "model", "route", "environment")
_TOKENS, _REQUESTS, _CHARGES = "Tokens", "Requests", "Charges"
_TOKENS_PRICED: Final = 1_000_000
_DECIMALS: Final = 18  # of a unit price, so that its product with the quantity is the cost
_NAMES: Final[Mapping[str, str]] = {
    "anthropic": "Anthropic",
    "aws": "Amazon Web Services",
    "azure": "Microsoft Azure",
    "bedrock": "Amazon Web Services",
    "cursor": "Cursor",
    "github-copilot": "GitHub Copilot",
    "google": "Google",
    "openai": "OpenAI",
    "openrouter": "OpenRouter",
    "vertex": "Google Cloud",
}
# What `x_BillStatus` says of `BilledCost`: whether its month is reconciled with the bill.
RECONCILED, PROVISIONAL, NO_BILL = "reconciled", "provisional", "no bill"
_SAME: Final[Mapping[str, Any]] = {
    "BillingAccountName": None,
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargeClass": None,
    "ChargeFrequency": "Usage-Based",
    "ConsumedUnit": _TOKENS,
    "PricingCategory": "Standard",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceSubcategory": "Generative AI",
    "SkuMeter": _TOKENS,
}
_OWN: Final = (
    *("BilledCost", "BillingAccountId", "BillingPeriodEnd", "BillingPeriodStart"),
    *("ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity"),
    *("ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName"),
    *("ListCost", "ListUnitPrice", "PricingQuantity", "PricingUnit", "ProviderName"),
    *("PublisherName", "ServiceName", "SkuId", "SkuPriceDetails", "SkuPriceId"),
)
_CUSTOM: Final = (
    *("x_Calls", "x_UnpricedCalls", "x_InputTokens", "x_CachedTokens", "x_CacheWriteTokens"),
    *("x_OutputTokens", "x_Route", "x_Environment", "x_BillStatus"),
)
_OF_USAGE: Final = (
    *("ConsumedQuantity", "ConsumedUnit", "PricingCategory", "SkuId", "SkuMeter"),
    *("SkuPriceDetails", "SkuPriceId"),
)
HEADER: Final = (*sorted((*_SAME, *_OWN)), *_CUSTOM)
V1_2, V1_4 = VERSIONS = ("1.2", "1.4")
# 1.3 renames these columns, and 1.4 has the new names alone. Columns are sorted by name.
_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    V1_2: {},
    V1_4: {"ProviderName": "ServiceProviderName", "PublisherName": "HostProviderName"},
}


@cache
def _columns(version: str) -> Sequence[tuple[str, int]]:
    """Return the columns of a version, with their positions in a row of `HEADER`."""
    renamed, own = _RENAMED[version], len(HEADER) - len(_CUSTOM)
    found = [(renamed.get(name, name), number) for number, name in enumerate(HEADER)]
    return (*sorted(found[:own]), *found[own:])


def header(version: str) -> Sequence[str]:
    return [name for name, _number in _columns(version)]


def arrange(row: Sequence[Any], version: str) -> Sequence[Any]:
    """Return a row of `HEADER` in the order of a version's columns."""
    return [row[number] for _name, number in _columns(version)]


class Bill(NamedTuple):
    """What was billed of a line."""

    usd: Decimal
    status: str


class Charge(NamedTuple):
    """What a provider billed and no line of spend has, such as a fee."""

    day: date
    provider: str
    name: str
    category: str
    amount: Decimal
    currency: str
    status: str
    is_priced: bool = True  # False where rows of spend have its list and effective cost


_NOT_BILLED: Final = Bill(Decimal(0), NO_BILL)


def make_row(account_id: str, line: Line, bill: Bill = _NOT_BILLED) -> Sequence[Any]:
    """Return the row of a line that is grouped by `KEYS`, in the order of the header."""
    key: Sequence[Any] = line.key
    day, provider, model, route, environment = key
    sums = line.sums
    tokens = sums.prompt_tokens + sums.completion_tokens
    # A report of speech, say, may have neither tokens nor a number of requests. The prices are
    # those whose product with the quantity is the cost.
    quantity = Decimal(tokens) / _TOKENS_PRICED if tokens else Decimal(sums.calls or 1)
    cells = {"BillingAccountId": account_id, **_SAME, **_periods(day), **_names(provider, model)}
    cells |= {
        "ConsumedQuantity": tokens,
        "PricingQuantity": quantity,
        "PricingUnit": f"{_TOKENS_PRICED} {_TOKENS}" if tokens else _REQUESTS,
        "ListCost": sums.list_usd,
        "ListUnitPrice": round(sums.list_usd / quantity, _DECIMALS),
        "ContractedCost": sums.cost_usd,
        "ContractedUnitPrice": round(sums.cost_usd / quantity, _DECIMALS),
        "EffectiveCost": sums.cost_usd,
        "x_Calls": sums.calls,
        "x_UnpricedCalls": sums.unpriced_calls,
        "x_InputTokens": sums.prompt_tokens,
        "x_CachedTokens": sums.cached_tokens,
        "x_CacheWriteTokens": sums.cache_write_tokens,
        "x_OutputTokens": sums.completion_tokens,
        "x_Route": route or None,
        "x_Environment": environment or None,
        "BilledCost": bill.usd,
        "x_BillStatus": bill.status,
    }
    return [cells[name] for name in HEADER]


def make_charge(account_id: str, charge: Charge) -> Sequence[Any]:
    """Return the row of a charge, whose costs are all what is billed, as FOCUS wants of credits.

    Tokens that rows of spend have cost nothing else here, so that no sum has them twice.
    """
    cells: dict[str, Any] = {**dict.fromkeys(HEADER), "BillingAccountId": account_id, **_SAME}
    cells |= {**_periods(charge.day), **_names(charge.provider, charge.name)}
    cost = charge.amount if charge.is_priced else Decimal(0)
    cells |= {
        "BilledCost": charge.amount,
        **dict.fromkeys(("ListCost", "ContractedCost", "EffectiveCost"), cost),
        "BillingCurrency": charge.currency,
        "ChargeCategory": charge.category,
        "ChargeDescription": charge.name,
        "x_BillStatus": charge.status,
    }
    if charge.category == "Usage":
        cells |= {"ConsumedQuantity": 1, "ConsumedUnit": _CHARGES, "SkuMeter": charge.name}
        # A price isn't negative.
        cells |= {"PricingQuantity": 1 if cost >= 0 else -1, "PricingUnit": _CHARGES}
        cells |= dict.fromkeys(("ListUnitPrice", "ContractedUnitPrice"), abs(cost))
    else:  # a tax or credit has no quantity, price or product
        cells |= dict.fromkeys(_OF_USAGE) | {"ChargeFrequency": "One-Time"}
    return [cells[name] for name in HEADER]


def _periods(day: date) -> dict[str, datetime]:
    """Return the day and its month in UTC; ends are exclusive."""
    month = day.replace(day=1)
    following = (month + timedelta(days=31)).replace(day=1)
    days = {
        "BillingPeriodStart": month,
        "BillingPeriodEnd": following,
        "ChargePeriodStart": day,
        "ChargePeriodEnd": day + timedelta(days=1),
    }
    return {name: datetime.combine(value, time()) for name, value in days.items()}


def _names(provider: str, model: str) -> dict[str, str]:
    name, sku = _NAMES.get(provider, provider), f"{provider}/{model}"
    who = {key: name for key in ("ProviderName", "PublisherName", "InvoiceIssuerName")}
    return {
        **who,
        "ServiceName": f"{name} API",
        "ChargeDescription": f"Calls of {model}",
        "SkuId": sku,
        "SkuPriceId": sku,
        "SkuPriceDetails": json.dumps({"x_Model": model}, ensure_ascii=False),
    }
