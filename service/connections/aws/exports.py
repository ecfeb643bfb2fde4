"""The cost and usage report of AWS in both forms, and its FOCUS export.

Only rows of Bedrock are read. Third-party models are billed as services of their own, whose codes
say nothing; their product or usage type names Bedrock.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from service.connections.exports import Cells, Export, day_of, pick, signs, usd_of
from service.connections.focus import focus_of, is_of_models, kind_of
from service.connections.provider import CREDIT, TAX, CostLine, TotalsLine, clean

_PLAIN: Final = re.compile(r"[^a-z]")
_KINDS: Final[Mapping[str, str]] = {"tax": TAX, "credit": CREDIT, "refund": CREDIT}
_WHERE: Final = (
    *("lineitemproductcode", "lineitemusagetype", "lineitemlineitemdescription"),
    *("productproductname", "productservicename", "lineitemoperation"),
)


def _read(cells: Cells) -> Iterator[TotalsLine]:
    # Both forms have the same names: lineItem/UsageType, and line_item_usage_type.
    cells = {_PLAIN.sub("", name.lower()): value for name, value in cells.items()}
    if not is_of_models(cells, *_WHERE):
        return
    usage_type = pick(cells, "lineitemusagetype", "lineitemproductcode")
    charge = pick(cells, "lineitemlineitemtype").lower()
    discounted = CREDIT if "discount" in charge else kind_of(usage_type)
    yield CostLine(
        bucket=day_of(cells, "lineitemusagestartdate", "billbillingperiodstartdate"),
        project_id=clean(pick(cells, "lineitemusageaccountid")),
        line_item=clean(usage_type),
        kind=_KINDS.get(charge, discounted),
        amount=usd_of(cells, "lineitemunblendedcost"),
        currency=clean(cells.get("lineitemcurrencycode")).upper() or "USD",
    )


EXPORTS: Final = (
    Export(
        provider="aws",
        name="costs_by_hand",
        what="a cost and usage report of AWS",
        signs=signs(
            "lineItem/UsageStartDate,lineItem/UsageType,lineItem/UnblendedCost",
            "line_item_usage_start_date,line_item_usage_type,line_item_unblended_cost",
        ),
        read=_read,
        organization=("bill/PayerAccountId", "bill_payer_account_id"),
    ),
    focus_of("aws", "AWS", r"\baws\b|amazon"),
)
