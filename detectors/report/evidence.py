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
# The calls of so many findings at a time: each part reads what its detectors flagged once more.
_PART_CALLS: Final = 500_000
_MOST_PARTS: Final = 4
_CALL: Final = ("number", "at_us", "cost_usd", "saving_usd")
# What a summary has of each column of `BASIS`.
_OF_BASIS: Final = {
    "median_norm_tokens": ("norm_tokens", nw.col("norm_tokens").median()),
    "median_prefix_tokens": ("prefix_tokens", nw.col("prefix_tokens").median()),
    "median_pause_seconds": ("pause_seconds", nw.col("pause_seconds").median()),
    "total_prefix_tokens": ("prefix_tokens", nw.col("prefix_tokens").sum()),
    "smallest_basis": ("basis", nw.col("basis").min()),
    "largest_basis": ("basis", nw.col("basis").max()),
    "total_basis": ("basis", nw.col("basis").sum()),
}


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
        basis = _find_basis(flagged, engine)
        own = engine.keep(_find_calls(some, flagged, calls, basis, engine))
        evidence = _pick_evidence(own, calls, some, most, basis, engine)
        summaries = {row["finding"]: _summary(row) for row in engine.fetch(_summarize(own, basis))}
        for index, impact in enumerate(some):
            details[impact.key] = Detail(evidence[index], summaries[index])
    return [details[impact.key] for impact in impacts]


def _split(impacts: Sequence[Impact]) -> list[list[Impact]]:
    """Split findings into a few parts, whose calls take less memory with all columns."""
    most = max(_PART_CALLS, sum(impact.calls for impact in impacts) // _MOST_PARTS)
    parts, calls = list[list[Impact]](), 0
    for impact in sorted(impacts, key=lambda each: each.detector_index):
        if not parts or calls + impact.calls > most:
            parts.append([])
            calls = 0
        parts[-1].append(impact)
        calls += impact.calls
    return parts


def _find_basis(flagged: Calls, engine: Engine) -> list[str]:
    """Return the columns of `BASIS` that are not 0 for all of many calls.

    A detector has a use for one or two of them.
    """
    if not engine.attaches_lazily:
        return list(BASIS)
    (used,) = engine.fetch(flagged.select((nw.col(*BASIS) != 0).any()))
    return [name for name in BASIS if used[name]]


def _find_calls(
    impacts: Sequence[Impact], flagged: Calls, calls: Calls, basis: Sequence[str], engine: Engine
) -> Calls:
    """Return the flagged calls of these findings, with their counts and the finding's index."""
    rows = [(*impact.key, index) for index, impact in enumerate(impacts)]
    listed = place_findings(rows, flagged, engine, "finding")
    in_window = flagged.filter(nw.col("in_window")).select(*FINDING, *_CALL, *basis)
    found = in_window.join(listed, on=list(FINDING), how="inner").drop(*FINDING)
    # Where texts are read when they are used, the IDs of a few calls are enough.
    names = COUNTS if engine.attaches_lazily else ["request_id", *COUNTS]
    return engine.look_up(found, calls, names)


def _pick_evidence(
    found: Calls,
    calls: Calls,
    impacts: Sequence[Impact],
    most: int,
    basis: Sequence[str],
    engine: Engine,
) -> list[tuple[Evidence, ...]]:
    """Return the most expensive calls of each finding; ties by time, ID and counts."""
    evidence: list[list[Evidence]] = [[] for _ in impacts]
    if most > 0:
        if engine.attaches_lazily:
            few = engine.filter_expensive(found, "finding", most)
            found = engine.look_up(few, calls, ["request_id"])
        order = ["at_us", "request_id", *COUNTS, "saving_usd", *basis]
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
        **{name: round(row[name], _DECIMALS) for name in BASIS if row.get(name)},
    )


def _summarize(found: Calls, basis: Sequence[str]) -> Calls:
    return sum_usd(
        found,
        "cost_usd",
        by=["finding"],
        others=[
            nw.col("prompt_tokens").median().alias("median_prompt_tokens"),
            nw.col("completion_tokens").median().alias("median_completion_tokens"),
            nw.col("declared_max_tokens").median().alias("median_declared_max_tokens"),
            nw.col("completion_tokens").max().alias("largest_completion_tokens"),
            nw.col("cached_tokens", "cache_write_tokens").sum(),
            *(each.alias(name) for name, (column, each) in _OF_BASIS.items() if column in basis),
        ],
    )


def _summary(row: Row) -> Row:
    medians = ("median_prompt_tokens", "median_completion_tokens", "median_declared_max_tokens")
    counts = ("largest_completion_tokens", "cached_tokens", "cache_write_tokens")
    return {
        **{name: float(row[name]) for name in medians},
        **{name: float(row.get(name, 0)) for name in _OF_BASIS},
        **{name: int(row[name]) for name in counts},
        "cost_usd": usd(row, "cost_usd"),
    }
