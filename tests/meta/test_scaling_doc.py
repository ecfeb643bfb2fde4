"""docs/scaling.md shows what the load model computes from its inputs today."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from benchmarks.load.__main__ import describe, describe_cost
from benchmarks.load.model import MEASURED, Cost, Load, needs_of
from tests.cases import each_case

DOC: Final = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text().splitlines()
USUAL: Final = Load(accounts=100, calls_per_day=1_000_000, calls_per_batch=500)


@each_case("accounts", [1, 100, 10_000])
def test_its_rows_are_those_of_the_model(accounts: int) -> None:
    cells = describe(replace(USUAL, accounts=accounts))
    assert f"| {' | '.join(cells)} |" in DOC


@each_case("kind", MEASURED)
def test_its_costs_are_the_inputs_of_the_model(kind: str) -> None:
    assert f"| {' | '.join(describe_cost(kind, MEASURED[kind]))} |" in DOC


def test_needs_grow_with_the_load() -> None:
    cost = Cost.between(50, 0.15, 5_000, 5.1)
    assert cost.of(1, 50) == pytest.approx(0.15)
    assert cost.of(2, 10_000) == pytest.approx(10.2)
    # Needs grow with the load and shrink with larger batches.
    usual, twice = needs_of(USUAL), needs_of(replace(USUAL, accounts=200))
    assert twice.worker_cores == pytest.approx(2 * usual.worker_cores)
    assert twice.blob_bytes == pytest.approx(2 * usual.blob_bytes)
    smaller = needs_of(replace(USUAL, calls_per_batch=50))
    assert smaller.web_cores > 2 * usual.web_cores
    assert smaller.database_bytes > 5 * usual.database_bytes
    # An account that needs spark costs more for each call.
    small = needs_of(replace(USUAL, accounts=100, calls_per_day=300_000))
    large = needs_of(replace(USUAL, accounts=30, calls_per_day=1_000_000))
    assert large.worker_cores > small.worker_cores
