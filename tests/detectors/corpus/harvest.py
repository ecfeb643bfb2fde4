"""One plant among clean calls, audited: what was found of it, and what was claimed elsewhere."""

from dataclasses import dataclass

import numpy as np
import polars as pl

import detectors
from detectors import Finding, Thresholds
from tests.detectors.corpus.clean import clean_calls
from tests.detectors.corpus.planted import Plant

PLANTED_SHARE = 50  # one call in so many


@dataclass(frozen=True)
class Harvest:
    """Observed US dollars: planted, found as what was planted, and claimed of clean calls."""

    planted_usd: float
    found_usd: float
    clean_usd: float
    claimed_elsewhere_usd: float

    @property
    def miss(self) -> float:
        """How far what was found is from what was planted, as a share of it."""
        return abs(self.found_usd - self.planted_usd) / self.planted_usd

    @property
    def false_claim(self) -> float:
        """What was claimed elsewhere, as a share of the clean spend."""
        return self.claimed_elsewhere_usd / self.clean_usd


def harvest(plant: Plant, calls: int, seed: int = 0) -> Harvest:
    sown = plant.sow(max(calls // PLANTED_SHARE, 20), np.random.default_rng(seed))
    clean = clean_calls(calls - sown.calls.height, seed)
    everything = pl.concat([clean, sown.calls.select(clean.columns)])
    # No floor, so that small claims count too.
    report = detectors.audit(everything, thresholds=Thresholds(floor_usd=0))
    found = [one for one in report.findings if _is_planted(one, plant)]
    others = [one for one in report.findings if not _is_planted(one, plant)]
    clean_usd = sum(
        float(one.spend_usd) for one in report.spend_by_route if not one.route.startswith("planted")
    )
    return Harvest(sown.usd, _sum(found), clean_usd, _sum(others))


def _is_planted(finding: Finding, plant: Plant) -> bool:
    is_there = finding.route.startswith("planted")
    return is_there and (finding.detector, finding.kind) == (plant.detector, plant.kind)


def _sum(findings: list[Finding]) -> float:
    return sum(float(one.observed_cost_impact_usd) for one in findings)
