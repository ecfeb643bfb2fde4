"""Rows of FOCUS against the rules of its columns, and against the spend they come from.

`focus_columns.toml` has what every column must be. The rules between columns are below, each with
the page of the specification that it comes from:
https://github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec/tree/v1.2/specification
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from service.connections import list_providers
from service.models.calls.spend import Line, Sums
from service.reports.csv_table import spool_csv
from service.reports.focus import HEADER, Charge, make_charge, make_row
from tests.cases import each_case

COLUMNS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "focus_columns.toml").read_text()
)
Row = dict[str, str]
LABELS = (date(2026, 2, 28), "openai", "gpt-5.5", "chat", "production")
COUNTS = {
    "calls": 10,
    "unpriced_calls": 0,
    "prompt_tokens": 1_234_567,
    "completion_tokens": 100,
    "cached_tokens": 50,
    "cache_write_tokens": 5,
    "cost_usd": Decimal("1.234567891"),
    "list_usd": Decimal("2.000000001"),
}


def line(*labels: Any, **sums: Any) -> Line:
    return Line((*labels, *LABELS[len(labels) :]), Sums(**{**COUNTS, **sums}))


LINES: Sequence[Line] = (
    line(),
    line(date(2024, 2, 29), "azure", "=my-gpt", "", ""),
    line(date(2026, 12, 31), "a provider", 'a "model"', "+route, with\tall", "é"),
    line(prompt_tokens=0, completion_tokens=0, cost_usd=Decimal("0.03"), list_usd=Decimal(1)),
    line(unpriced_calls=10, cost_usd=Decimal(0), list_usd=Decimal(0)),
    line(prompt_tokens=10**15 - 1, cost_usd=Decimal("123456789.123456789")),
    line(prompt_tokens=3, completion_tokens=4, cost_usd=Decimal("0.000000001")),
)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    file = spool_csv(HEADER, [make_row("an-account", each) for each in LINES])
    with file:
        return list(csv.DictReader(io.StringIO(file.read().decode(), newline="")))


def is_decimal(text: str) -> bool:
    """attributes/numeric_format.md."""
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(E-?[0-9]+)?", text) is not None


def is_moment(text: str) -> bool:
    """attributes/datetime_format.md."""
    return re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text) is not None


def is_json(text: str) -> bool:
    """attributes/key_value_format.md."""
    found = json.loads(text)
    return isinstance(found, dict) and not any(
        isinstance(value, dict | list) for value in found.values()
    )


def is_text(text: str) -> bool:
    return text == text.strip()


TYPES: Mapping[str, Callable[[str], bool]] = {
    "decimal": is_decimal,
    "moment": is_moment,
    "json": is_json,
    "string": is_text,
}


def test_columns_are_those_of_the_specification_and_our_own_come_last() -> None:
    """attributes/column_handling.md."""
    mandatory = {name for name, rule in COLUMNS.items() if rule["level"] == "mandatory"}
    own = [name for name in HEADER if name not in COLUMNS]
    assert mandatory <= set(HEADER)
    assert all(re.fullmatch(r"x_[A-Z][A-Za-z]+", name) for name in own)
    assert list(HEADER[-len(own) :]) == own
    assert len(set(HEADER)) == len(HEADER)


@each_case("name", [name for name in HEADER if name in COLUMNS])
def test_a_column_has_its_type_and_is_null_only_where_it_may_be(name: str, rows: list[Row]) -> None:
    rule = COLUMNS[name]
    values = [row[name] for row in rows]
    assert rule["null"] or all(values)
    assert all(TYPES[rule["type"]](value) for value in values if value)


ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning"},
    "ServiceSubcategory": {"Generative AI"},
    "BillingCurrency": {"USD"},
    "ConsumedUnit": {"Tokens"},
    "PricingUnit": {"1000000 Tokens", "Requests"},
}


@each_case("name", ALLOWED)
def test_a_column_has_an_allowed_value(name: str, rows: list[Row]) -> None:
    """columns/<name>.md, and attributes/unit_format.md for units."""
    assert {row[name] for row in rows} <= ALLOWED[name]


@each_case(
    ("price", "cost"), [("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")]
)
def test_prices_times_quantities_are_costs(price: str, cost: str, rows: list[Row]) -> None:
    """columns/pricingquantity.md, columns/listunitprice.md, columns/contractedunitprice.md."""
    for row in rows:
        product = Decimal(row[price]) * Decimal(row["PricingQuantity"])
        assert round(product, 9) == Decimal(row[cost])
        assert Decimal(row[price]) >= 0


def test_usage_has_what_usage_must_have(rows: list[Row]) -> None:
    """columns/consumedquantity.md, skuid.md, skupriceid.md, skupricedetails.md, skumeter.md."""
    needed = [
        *("ConsumedQuantity", "ConsumedUnit", "ListUnitPrice", "ContractedUnitPrice", "SkuId"),
        *("SkuPriceId", "SkuMeter", "PricingQuantity", "PricingUnit", "PricingCategory"),
    ]
    for row in rows:
        assert all(row[name] for name in needed)
        assert all(key.startswith("x_") for key in json.loads(row["SkuPriceDetails"]))
    models = [json.loads(row["SkuPriceDetails"])["x_Model"] for row in rows[:3]]
    assert models == ["gpt-5.5", "=my-gpt", 'a "model"']


def test_a_charge_is_a_day_in_its_month(rows: list[Row]) -> None:
    """columns/chargeperiodstart.md and billingperiodstart.md; ends are exclusive."""
    names = ("BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodEnd")
    assert [[row[name][:10] for name in names] for row in rows[:3]] == [
        ["2026-02-01", "2026-02-28", "2026-03-01", "2026-03-01"],
        ["2024-02-01", "2024-02-29", "2024-03-01", "2024-03-01"],
        ["2026-12-01", "2026-12-31", "2027-01-01", "2027-01-01"],
    ]


def test_nothing_is_billed_and_no_label_is_a_formula(rows: list[Row]) -> None:
    assert {row["BilledCost"] for row in rows} == {"0"}
    assert rows[2]["x_Route"] == "'+route, with\tall"
    assert rows[1]["x_Route"] == rows[1]["x_Environment"] == ""
    providers = [row["ProviderName"] for row in rows[:3]]
    assert providers == ["OpenAI", "Microsoft Azure", "a provider"]


DAY = date(2026, 2, 28)
CHARGES: Sequence[Charge] = (
    Charge(DAY, "openai", "Web search", "Usage", Decimal("1.25"), "USD", "reconciled"),
    Charge(DAY, "openai", "Credits", "Credit", Decimal(-5), "USD", "provisional"),
    Charge(DAY, "openai", "Taxes", "Tax", Decimal(19), "EUR", "reconciled"),
    Charge(DAY, "openai", "Correction", "Usage", Decimal("-0.5"), "USD", "reconciled"),
)


@pytest.fixture(scope="module")
def charges() -> list[Row]:
    with spool_csv(HEADER, [make_charge("an-account", each) for each in CHARGES]) as file:
        return list(csv.DictReader(io.StringIO(file.read().decode(), newline="")))


def test_a_charge_keeps_the_rules_of_its_category(charges: list[Row]) -> None:
    """columns/skuid.md, consumedquantity.md, pricingquantity.md: taxes and credits have none."""
    for row in charges:
        for name in HEADER:
            rule = COLUMNS.get(name, {"null": True, "type": "string"})
            assert rule["null"] or row[name], name
            assert not row[name] or TYPES[rule["type"]](row[name]), name
        needed = ("ConsumedQuantity", "SkuId", "PricingQuantity", "ListUnitPrice", "SkuMeter")
        assert [bool(row[name]) for name in needed] == [row["ChargeCategory"] == "Usage"] * 5
    assert [row["BilledCost"] for row in charges] == ["1.25", "-5", "19", "-0.5"]
    assert [row["BillingCurrency"] for row in charges] == ["USD", "USD", "EUR", "USD"]


@each_case("kind", ["List", "Contracted", "Effective"])
def test_a_charge_costs_what_is_billed(kind: str, charges: list[Row]) -> None:
    """columns/listcost.md, contractedcost.md and effectivecost.md: as credits must."""
    for row in charges:
        assert row[f"{kind}Cost"] == row["BilledCost"]
        if price := row.get(f"{kind}UnitPrice"):
            assert Decimal(price) >= 0
            assert Decimal(price) * Decimal(row["PricingQuantity"]) == Decimal(row["BilledCost"])


def test_speech_without_tokens_and_requests_has_a_price() -> None:
    none = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
    row = dict(zip(HEADER, make_row("an-account", line(**none)), strict=True))
    assert row["ListUnitPrice"] * row["PricingQuantity"] == row["ListCost"]


def test_every_provider_that_can_be_connected_has_a_name() -> None:
    for name in list_providers():
        charge = Charge(date(2026, 2, 28), name, "m", "Usage", Decimal(1), "USD", "provisional")
        row = dict(zip(HEADER, make_charge("an-account", charge), strict=True))
        assert row["ProviderName"] != name
