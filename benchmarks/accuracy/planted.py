"""Plant waste of known size in real rates, and compare what audits claim of it with the truth.

    python -m benchmarks.accuracy.planted --traffic DIR [--first SEED] [--seeds N]

Each route takes its times and sizes from calls of Azure's services, thinned and shifted by the
seed. The truth is the dollars that the fix would save of the calls as they are: the cache that
keeps what is marked for 300 seconds, five items per request, no repeated or thrown-away call.
The ends of d3's and d5's ranges were chosen on seeds 0 to 59; what we report is of others.
"""

import argparse
import hashlib
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

import detectors
from benchmarks.accuracy import traces
from benchmarks.accuracy.traces import Model
from detectors import Thresholds
from detectors.contract import LEVEL_DIGITS, LEVELS

# Input, cache read, cache write and output, US dollars per token.
RATES = {
    Model("openai", "gpt-4.1"): (2e-6, 0.5e-6, 2e-6, 8e-6),
    Model("anthropic", "claude-sonnet-4-5"): (3e-6, 0.3e-6, 3.75e-6, 15e-6),
}
ROUTES = 12  # of each kind
CACHE_SECONDS = 300
SESSION_SECONDS = 900
MOST_OF_CLEAN_PCT = 1.0
EVERY_FINDING = Thresholds(floor_usd=0, max_findings=10_000)
# The least recall and precision in dollars, and share of truths inside the range of their finding.
# What d3 claims depends on the other routes.
LIMITS = {
    "d2": (0.80, 0.95, 0.90),
    "d3": (0.25, 0.80, 0.90),
    "d4": (0.85, 0.95, 0.90),
    "d5": (0.40, 0.95, 0.90),
    "d6": (0.75, 0.95, 0.90),
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """A real call: seconds since the first one, prompt and answer tokens."""

    at: float
    prompt: int
    answer: int


class Planter:
    """Draws the routes of one seed; `truths` are the dollars to save by detector and route.

    What the calls of a planted cache repeat could also be sent once for five of them: `batchable`
    are the dollars of that by route. Not planted for d6, they count for what it claims there.
    """

    def __init__(self, real: list[list[Sizes]], seed: int) -> None:
        self.rng = random.Random(seed)
        self._real = real
        self.rows: list[Row] = []
        self.truths: dict[tuple[str, str], float] = {}
        self.batchable: dict[str, float] = {}

    def rates(self, least: float, most: float) -> Iterator[Sizes]:
        """Yield calls of a service, thinned to this many seconds between two, and shifted."""
        rng, real = self.rng, self.rng.choice(self._real)
        pause = log_uniform(rng, least, most)
        yield from self._drawn(real, real[-1].at / len(real) / pause)

    def _drawn(self, real: list[Sizes], share: float) -> Iterator[Sizes]:
        shift = self.rng.uniform(0, 3_600)
        for each in real:
            if self.rng.random() < share:
                yield Sizes(each.at + shift, each.prompt, each.answer)

    def plant_services(self) -> None:
        """Add a share of all calls, a route for each service; prompts have nothing in common."""
        share, model = self.rng.uniform(0.1, 0.9), self.rng.choice([*RATES])
        for number, real in enumerate(self._real):
            for each in self._drawn(real, share):
                self.add(f"service-{number}", model, each.at, **_sizes_of(each, str(number)))

    def add(self, route: str, model: Model, at: float, **fields: Any) -> float:
        """Add a call, and return what it costs."""
        row = {
            "ts": traces.START + timedelta(seconds=at),
            "provider": model.provider,
            "model": model.name,
            "tag": route,
            **fields,
        }
        self.rows.append(row)
        price = RATES[model]
        return float(fields["prompt_tokens"] * price[0] + fields["completion_tokens"] * price[3])


def log_uniform(rng: random.Random, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def ladder(head: str, own: str, shared: int, length: int) -> list[str]:
    """Return the hashes of a prompt whose first characters are those of its route."""
    return [
        hashlib.sha256(f"{head if size <= shared else own} {size}".encode()).hexdigest()[
            :LEVEL_DIGITS
        ]
        for size in LEVELS
        if size == LEVELS[0] or size <= length
    ]


def plant_caching(planter: Planter, route: str, model: Model) -> float:
    """Return what a cache of the shared part saves: reads cost less, and each cold start more."""
    rng, price = planter.rng, RATES[model]
    shared, per_token = int(log_uniform(rng, 4_096, 200_000)), rng.uniform(3.5, 4.6)
    tokens, saved = int(shared / per_token), 0.0
    second = before = last = -math.inf
    number = followers = 0
    for each in planter.rates(4, 400):
        number = number + 1 if each.at - last <= SESSION_SECONDS else 0
        followers, last = followers + (number % 5 > 0), each.at
        now = math.floor(each.at)
        if now != second:
            before, second = second, now
        length = shared + int(each.prompt * per_token)
        planter.add(
            route,
            model,
            each.at,
            prompt_tokens=int(length / per_token),
            completion_tokens=each.answer,
            prefix_hashes=ladder(route, f"{route} {each.at}", shared, length),
        )
        is_warm = now - before <= CACHE_SECONDS
        saved += tokens * (price[0] - price[1] if is_warm else price[0] - price[2])
    planter.batchable[route] = followers * tokens * price[0]
    return saved if tokens >= traces.SHORTEST_PREFIX else 0.0


def plant_bloat(planter: Planter, route: str, model: Model) -> float:
    """Return what is avoidable of the prompts of a route that sends too much now and then."""
    rng, saved = planter.rng, 0.0
    for each in planter.rates(4, 30):
        prompt = min(each.prompt, 4_000)
        more = int(prompt * rng.uniform(4, 8)) if rng.random() < 0.15 else 0
        planter.add(
            route, model, each.at, prompt_tokens=prompt + more, completion_tokens=each.answer
        )
        saved += more * rng.uniform(0.2, 1.0) * RATES[model][0]
    return saved


def plant_repeats(planter: Planter, route: str, model: Model) -> float:
    """Return the cost of all calls but the first of bursts of one prompt.

    On half of the routes it has no hash and may be of any length. There, neither answers under 20
    tokens nor bursts that overlap others are claimed, so answers are longer and calls rarer.
    """
    rng, saved = planter.rng, 0.0
    is_hashed = rng.random() < 0.5
    pauses = (60, 200) if is_hashed else (200, 600)
    for number, each in enumerate(planter.rates(*pauses)):
        prompt = rng.randint(200, 780) if is_hashed else each.prompt
        answer = each.answer if is_hashed else max(each.answer, 20)
        own = ladder(f"{route} {number}", "", 10**9, 4 * prompt) if is_hashed else None
        at = each.at
        for copy in range(rng.choice([1, 1, 3, 4, 6])):
            at += rng.uniform(0.5, 9)
            cost = planter.add(
                route,
                model,
                at,
                prompt_tokens=prompt,
                completion_tokens=answer,
                prefix_hashes=own,
            )
            saved += cost * (copy > 0)
    return saved


def plant_cuts(planter: Planter, route: str, model: Model) -> float:
    """Return the cost of cut-off answers that are thrown away and asked for again."""
    rng, saved = planter.rng, 0.0
    for each in planter.rates(130, 260):
        fields = {"prompt_tokens": each.prompt, "declared_max_tokens": 300}
        if rng.random() < 0.3:
            cut = planter.add(route, model, each.at, completion_tokens=300, **fields)
            again = {"prompt_tokens": each.prompt, "declared_max_tokens": 2_000}
            planter.add(route, model, each.at + rng.uniform(8, 60), completion_tokens=700, **again)
            saved += cut
        else:
            planter.add(route, model, each.at, completion_tokens=rng.randint(20, 280), **fields)
    return saved


def plant_loops(planter: Planter, route: str, model: Model) -> float:
    """Return what the instructions cost that four of five items repeat."""
    rng, saved = planter.rng, 0.0
    shared, per_token = int(log_uniform(rng, 4_096, 60_000)), rng.uniform(3.5, 4.6)
    for begin in range(3):
        at = 1_300.0 * begin + rng.uniform(0, 200)
        for number in range(rng.randint(12, 90)):
            at += rng.uniform(1.5, 6)
            length = shared + rng.randint(200, 6_000)
            planter.add(
                route,
                model,
                at,
                prompt_tokens=int(length / per_token),
                completion_tokens=rng.randint(3, 90),
                prefix_hashes=ladder(route, f"{route} {at}", shared, length),
            )
            saved += (number % 5 > 0) * shared / per_token * RATES[model][0]
    return saved


def plant_nothing(planter: Planter, route: str, model: Model) -> float:
    """Add calls whose prompts have nothing in common."""
    for each in planter.rates(4, 60):
        planter.add(route, model, each.at, **_sizes_of(each, route))
    return 0.0


def _sizes_of(call: Sizes, route: str) -> dict[str, Any]:
    return {
        "prompt_tokens": call.prompt,
        "completion_tokens": call.answer,
        "prefix_hashes": ladder(f"{route} {call.at}", "", 10**9, call.prompt * 4),
    }


PLANTS: dict[str, Callable[[Planter, str, Model], float]] = {
    "d2": plant_caching,
    "d3": plant_bloat,
    "d4": plant_repeats,
    "d5": plant_cuts,
    "d6": plant_loops,
    "": plant_nothing,
}


@dataclass(slots=True)
class Tally:
    """Dollars of one detector, and how many truths lie inside the range of their finding."""

    planted: float = 0.0
    claimed: float = 0.0
    low: float = 0.0
    high: float = 0.0
    right: float = 0.0  # of what is claimed
    found: float = 0.0  # of what was planted
    findings: int = 0
    planted_findings: int = 0  # of routes with planted waste
    inside: int = 0  # of these
    others_inside: int = 0  # of the others
    of_split_pct: float = 0.0  # claimed of services split over routes, without waste; a sum
    of_clean_pct: float = 0.0  # claimed of whole services without waste; a sum, and the most
    most_of_clean_pct: float = 0.0


def measure(real: list[list[Sizes]], seed: int, tallies: dict[str, Tally]) -> None:
    """Audit what a seed plants, and traffic without planted waste alone.

    That is split over routes by chance, and as it is: a route for each service.
    """
    planter = Planter(real, seed)
    for detector, plant in PLANTS.items():
        for number in range(ROUTES):
            route, model = f"{detector or 'clean'}-{number}", planter.rng.choice([*RATES])
            truth = plant(planter, route, model)
            if detector and truth > 0:
                planter.truths[detector, route] = truth
                tallies[detector].planted += truth
    frame = pl.DataFrame(planter.rows, infer_schema_length=None)
    for finding in detectors.audit(frame, thresholds=EVERY_FINDING).findings:
        detector, route = finding.detector[:2], finding.route
        claimed = float(finding.observed_cost_impact_usd)
        # What the calls of a loop repeat could be cached, too, instead of sent once.
        if not claimed or detector not in tallies or (detector == "d2" and route[:2] == "d6"):
            continue
        factor = claimed / float(finding.monthly_cost_impact_usd)
        tally, truth = tallies[detector], planter.truths.get((detector, route), 0.0)
        is_planted = truth > 0
        if detector == "d6":
            truth = truth or planter.batchable.get(route, 0.0)
        low, high = (float(end or 0) * factor for end in (finding.impact_low, finding.impact_high))
        tally.claimed += claimed
        tally.low += low
        tally.high += high
        tally.right += min(claimed, truth)
        tally.found += min(claimed, truth) if is_planted else 0.0
        tally.findings += 1
        is_inside = low * 0.999 <= truth <= high * 1.001
        tally.planted_findings += is_planted
        tally.inside += is_inside and is_planted
        tally.others_inside += is_inside and not is_planted
    split = _claimed(frame.filter(pl.col("tag").str.starts_with("clean")))
    whole = Planter(real, seed)
    whole.plant_services()
    clean = _claimed(pl.DataFrame(whole.rows, infer_schema_length=None))
    for detector, tally in tallies.items():
        tally.of_split_pct += split.get(detector, 0.0)
        tally.of_clean_pct += clean.get(detector, 0.0)
        tally.most_of_clean_pct = max(tally.most_of_clean_pct, clean.get(detector, 0.0))


def _claimed(calls: pl.DataFrame) -> dict[str, float]:
    """Return the share of spend that each detector claims, in percent."""
    report = detectors.audit(calls)
    claims: dict[str, float] = {}
    for each in report.findings:
        share = 100 * float(each.observed_cost_impact_usd) / float(report.audit.total_spend_usd)
        claims[each.detector[:2]] = claims.get(each.detector[:2], 0.0) + share
    return claims


def read_real(folder: Path) -> list[list[Sizes]]:
    """Return the calls of each service in order of time."""
    services = []
    for name in traces.AZURE:
        calls = traces.read_azure(folder, name, Model("", "")).sort("ts")
        columns = zip(
            (calls["ts"] - calls["ts"][0]).dt.total_seconds(fractional=True),
            calls["prompt_tokens"],
            calls["completion_tokens"],
            strict=True,
        )
        services.append([Sizes(*each) for each in columns])
    return services


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traffic", type=Path, required=True)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=12)
    arguments = parser.parse_args()
    tallies = {detector: Tally() for detector in LIMITS}
    real = read_real(arguments.traffic)
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        measure(real, seed, tallies)
    headings = (
        "",
        "planted",
        "claimed (low to high)",
        "precision",
        "recall",
        "inside",
        "elsewhere",
    )
    table = Table(*headings, "of clean spend", "split")
    kept = True
    for detector, tally in tallies.items():
        precision, recall = tally.right / tally.claimed, tally.found / tally.planted
        inside = tally.inside / tally.planted_findings
        others = tally.findings - tally.planted_findings
        values = (recall, precision, inside)
        kept &= all(value >= least for value, least in zip(values, LIMITS[detector], strict=True))
        clean = tally.of_clean_pct / arguments.seeds
        kept &= clean <= MOST_OF_CLEAN_PCT
        dollars = [each / arguments.seeds for each in (tally.claimed, tally.low, tally.high)]
        table.add_row(
            detector,
            f"${tally.planted / arguments.seeds:,.2f}",
            "${:,.2f} (${:,.2f} to ${:,.2f})".format(*dollars),
            f"{precision:.2f}",
            f"{recall:.2f}",
            f"{inside:.0%} of {tally.planted_findings}",
            f"{tally.others_inside} of {others}",
            f"{clean:.2f}% (most: {tally.most_of_clean_pct:.2f}%)",
            f"{tally.of_split_pct / arguments.seeds:.2f}%",
        )
    Console(width=120).print(table)
    if not kept:
        raise SystemExit("a claim is further from the truth than its limit")


if __name__ == "__main__":
    main()
