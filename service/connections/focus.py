"""Cost exports in FOCUS form, 1.0 to 1.4, as AWS, Azure and Google Cloud write them.

A bill of a cloud is mostly about other services: only rows of model services are read. They name
meters and no model that calls would name, so their costs are compared as a whole.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from service.connections.exports import Cells, Export, day_of, pick, signs, usd_of
from service.connections.provider import (
    CREDIT,
    OTHER_FEE,
    TAX,
    TOKENS,
    CostLine,
    Name,
    TotalsLine,
    clean,
)

# 1.3 renames the columns of the provider, and 1.4 drops the older names.
_WHO: Final = ("ServiceProviderName", "ProviderName", "HostProviderName", "InvoiceIssuerName")
MODELS: Final = re.compile(
    r"bedrock|openai|foundry|vertex|gemini|generative language|claude|anthropic", re.IGNORECASE
)
_WHERE: Final = (
    "ServiceName",
    "ServiceSubcategory",
    "ChargeDescription",
    "SkuMeter",
    "PublisherName",
)
# Google's meters of tokens are "Gemini 2.5 Flash GA Text Input - Predictions".
_TOKENS: Final = re.compile(r"token|\bto?k\b|\b(?:in|out)put\b.*\bpredictions\b", re.IGNORECASE)
_KINDS: Final[Mapping[str, str]] = {"tax": TAX, "credit": CREDIT, "adjustment": CREDIT}


def is_of_models(cells: Cells, *names: str) -> bool:
    """Check whether a row of a cloud's bill is about models."""
    return any(MODELS.search(cells.get(name, "")) for name in names)


def kind_of(text: str) -> str:
    """Return what a meter of a model service is for: tokens, or a fee."""
    return TOKENS if _TOKENS.search(text) else OTHER_FEE


def _read(cells: Cells) -> Iterator[TotalsLine | Name]:
    if not is_of_models(cells, *_WHERE):
        return
    meter = pick(cells, "SkuMeter", "ChargeDescription", "SkuId", "ServiceName")
    project = clean(cells.get("SubAccountId"))
    unit = f"{meter} {pick(cells, 'ConsumedUnit')} {pick(cells, 'PricingUnit')}"
    yield CostLine(
        bucket=day_of(cells, "ChargePeriodStart"),
        project_id=project,
        line_item=clean(meter),
        kind=_KINDS.get(pick(cells, "ChargeCategory").lower(), kind_of(unit)),
        amount=usd_of(cells, "BilledCost"),
        list_amount=usd_of(cells, "ListCost") if pick(cells, "ListCost") else None,
        currency=clean(cells.get("BillingCurrency")).upper() or "USD",
    )
    if name := clean(cells.get("SubAccountName")):
        yield Name("project", project, name)


def focus_of(provider: str, title: str, words: str) -> Export:
    """Return the FOCUS export of a cloud, whose rows name it with one of these words."""
    own = re.compile(words, re.IGNORECASE)
    return Export(
        provider=provider,
        # As other reports of the same costs, so that one replaces the other.
        name="costs_by_hand",
        what=f"a FOCUS export of {title}",
        signs=signs("BilledCost,ChargePeriodStart"),
        read=_read,
        organization=("BillingAccountId",),
        is_own=lambda cells: own.search(pick(cells, *_WHO)) is not None,
    )
