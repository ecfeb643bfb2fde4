"""Recorded exchanges with known records and bills: every door reads the same.

A bill is worked out by hand, from the provider's rates of 2026-06-21 in `arithmetic`: per million
tokens, per thousand calls, or per hour. Where the book lacks one of them, `no_bill` says which.
"""

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import detectors
from tests.cases import each_case
from tests.detectors.formats.usage.doors import TS, Case, corpus, doors_of, expected, read

PER = {"M": 1_000_000, "K": 1_000, "h": 3_600}
_TERM = re.compile(r"(\d+) × \$([\d.]+)/([MKh])")
BILLED = [case for case in corpus() if case["bill"] is not None]


@functools.cache
def readings(name: str) -> Mapping[str, list[dict[str, Any]] | str]:
    case = next(each for each in corpus() if each["name"] == name)
    return {door: read(case, door) for door in doors_of(case)}


@functools.cache
def bills() -> Mapping[str, Decimal]:
    """Return what the book says of the records of each case and door; one audit prices all."""
    call = {"ts": datetime.fromtimestamp(TS, UTC)}
    records = [
        {**call, **record, "tag": f"{case['name']} {door}", "request_id": str(number)}
        for case in BILLED
        for door, found in readings(case["name"]).items()
        for number, record in enumerate(found)
        if isinstance(record, dict)
    ]
    report = detectors.audit(records)
    return {each.route: each.spend_usd for each in report.spend_by_route}


@each_case("case", corpus())
def test_every_door_reads_the_same(case: Case) -> None:
    found = readings(case["name"])
    wrong = {door: records for door, records in found.items() if records != expected(case)}
    assert not wrong, f"right: {expected(case)}"


@each_case("case", BILLED)
def test_every_doors_records_cost_what_was_billed(case: Case) -> None:
    terms = _TERM.findall(case["arithmetic"])
    assert " + ".join(f"{n} × ${rate}/{per}" for n, rate, per in terms) == case["arithmetic"]
    bill = Decimal(case["bill"])
    assert sum(int(n) * Decimal(rate) / PER[per] for n, rate, per in terms) == bill
    doors = readings(case["name"])
    assert {door: bills()[f"{case['name']} {door}"] for door in doors} == dict.fromkeys(doors, bill)


def test_every_other_case_says_which_rate_is_missing() -> None:
    assert all(case["no_bill"] for case in corpus() if case["bill"] is None)
