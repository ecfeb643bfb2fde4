"""The calls of each finding: the most expensive as evidence, all of them as medians and sums."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import narwhals.stable.v2 as nw

from detectors.contract import Evidence
from detectors.engines import Calls, Engine, Row
from detectors.prices.calls import COUNTS
from detectors.report.counting.projection import iso_time
from detectors.report.impacts import FINDING, Impact, place_findings
from detectors.report.money import rounded, sum_usd, usd
from detectors.rules.detector import BASIS

_DECIMALS: Final = 6
_MOST_CALLS: Final = 500_000


class Detail(msgspec.Struct, frozen=True):
    """A finding's evidence, and in `summary` the medians and sums for its fix."""

    evidence: tuple[Evidence, ...]
    summary: Row


def collect_details(
    impacts: Sequence[Impact], found: Sequence[Calls], calls: Calls, engine: Engine, *, most: int
) -> list[Detail]:
    """Return the detail of each finding, with at most `most` calls as evidence.

    `found` is what each detector flags.
    """
    details: dict[tuple[int, int, int], Detail] = {}
    for some in _split(impacts) if engine.attaches_lazily else filter(None, [impacts]):
        detectors = sorted({impact.detector_index for impact in some})
        flagged: Calls = nw.concat([found[index] for index in detectors], how="vertical")
        own = engine.keep(_find_calls(some, flagged, calls, engine))
        evidence = _pick_evidence(own, calls, some, most, engine)
        summaries = {row["finding"]: _summary(row) for row in engine.fetch(_summarize(own))}
        for index, impact in enumerate(some):
            details[impact.key] = Detail(evidence[index], summaries[index])
    return [details[impact.key] for impact in impacts]


def _split(impacts: Sequence[Impact]) -> list[list[Impact]]:
    """Split findings into parts of so few calls that these fit in memory with all columns."""
    parts, calls = list[list[Impact]](), 0
    for impact in sorted(impacts, key=lambda each: each.detector_index):
        if not parts or calls + impact.calls > _MOST_CALLS:
            parts.append([])
            calls = 0
        parts[-1].append(impact)
        calls += impact.calls
    return parts


def _find_calls(impacts: Sequence[Impact], flagged: Calls, calls: Calls, engine: Engine) -> Calls:
    """Return the flagged calls of these findings, with their counts and the finding's index."""
    rows = [(*impact.key, index) for index, impact in enumerate(impacts)]
    listed = place_findings(rows, flagged, engine, "finding")
    in_window = flagged.filter(nw.col("in_window")).drop("in_window", "low_usd", "high_usd")
    found = in_window.join(listed, on=list(FINDING), how="inner").drop(*FINDING)
    # Where texts are read when they are used, the IDs of a few calls are enough.
    names = COUNTS if engine.attaches_lazily else ["request_id", *COUNTS]
    return engine.look_up(found, calls, names)


def _pick_evidence(
    found: Calls, calls: Calls, impacts: Sequence[Impact], most: int, engine: Engine
) -> list[tuple[Evidence, ...]]:
    """Return the most expensive calls of each finding; ties by time, ID and counts."""
    evidence: list[list[Evidence]] = [[] for _ in impacts]
    if most > 0:
        if engine.attaches_lazily:
            few = engine.filter_expensive(found, "finding", most)
            found = engine.look_up(few, calls, ["request_id"])
        order = ["at_us", "request_id", *COUNTS, "saving_usd", *BASIS]
        picked = engine.fetch(engine.pick_most_expensive(found, "finding", order, most))
        for row in sorted(picked, key=lambda row: (row["finding"], row["rank"])):
            evidence[row["finding"]].append(_call(row, impacts[row["finding"]].group.model))
    return [tuple(calls) for calls in evidence]


def _call(row: Mapping[str, Any], model: str) -> Evidence:
    return Evidence(
        ts=iso_time(row["at_us"]),
        model=model,
        **{name: row[name] for name in COUNTS},
        cost_usd=rounded(row["cost_usd"]),
        saving_usd=rounded(row["saving_usd"]),
        request_id=row["request_id"],
        # A number that a detector has no use for is not in the document.
        **{name: round(row[name], _DECIMALS) for name in BASIS if row[name]},
    )


def _summarize(found: Calls) -> Calls:
    return sum_usd(
        found,
        "cost_usd",
        by=["finding"],
        others=[
            nw.col("prompt_tokens").median().alias("median_prompt_tokens"),
            nw.col("completion_tokens").median().alias("median_completion_tokens"),
            nw.col("declared_max_tokens").median().alias("median_declared_max_tokens"),
            nw.col("completion_tokens").max().alias("largest_completion_tokens"),
            nw.col("norm_tokens").median().alias("median_norm_tokens"),
            nw.col("prefix_tokens").median().alias("median_prefix_tokens"),
            nw.col("pause_seconds").median().alias("median_pause_seconds"),
            nw.col("prefix_tokens").sum().alias("total_prefix_tokens"),
            nw.col("basis").min().alias("smallest_basis"),
            nw.col("basis").max().alias("largest_basis"),
            nw.col("basis").sum().alias("total_basis"),
            nw.col("cached_tokens", "cache_write_tokens").sum(),
        ],
    )


def _summary(row: Row) -> Row:
    floats = (
        name for name in row if name.startswith(("median_", "total_")) or name.endswith("_basis")
    )
    medians = {name: float(row[name]) for name in floats}
    counts = ("largest_completion_tokens", "cached_tokens", "cache_write_tokens")
    return medians | {name: int(row[name]) for name in counts} | {"cost_usd": usd(row, "cost_usd")}
