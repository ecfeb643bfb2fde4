"""The calls of each finding: the most expensive as evidence, all of them as medians and sums."""

from collections.abc import Sequence
from typing import Final

import msgspec
import polars as pl

from detectors.contract import Evidence
from detectors.engine import Calls, Row, collect, fetch, join_numbered
from detectors.prices.calls import COUNTS, ArrangedCalls
from detectors.report.counting.projection import iso_time
from detectors.report.impacts import Impact
from detectors.report.money import collect_usd, rounded, usd
from detectors.rules import DETECTORS
from detectors.rules.detector import BASIS

_DECIMALS: Final = 6
_PLACE: Final = "place_of_finding"  # by group and kind
_CALL: Final = ("number", "at_us", "cost_usd", "saving_usd")
_IS_SHARING: Final = pl.col("prefix_tokens") > 0
# What a summary has of each column of `BASIS`.
_OF_BASIS: Final = {
    "median_norm_tokens": ("norm_tokens", pl.col("norm_tokens").median()),
    "median_prefix_tokens": ("prefix_tokens", pl.col("prefix_tokens").median()),
    "median_pause_seconds": ("pause_seconds", pl.col("pause_seconds").median()),
    # Of the calls that have something in common with an earlier one.
    "sharing_calls": ("prefix_tokens", _IS_SHARING.sum()),
    "median_shared_tokens": (
        "prefix_tokens",
        pl.col("prefix_tokens").filter(_IS_SHARING).median().fill_null(0),
    ),
    "median_sharing_prompt_tokens": (
        "prefix_tokens",
        pl.col("prompt_tokens").filter(_IS_SHARING).median().fill_null(0),
    ),
    "total_prefix_tokens": ("prefix_tokens", pl.col("prefix_tokens").sum()),
    "smallest_basis": ("basis", pl.col("basis").min()),
    "largest_basis": ("basis", pl.col("basis").max()),
    "total_basis": ("basis", pl.col("basis").sum()),
}


class Detail(msgspec.Struct, frozen=True):
    """A finding's evidence, and in `summary` the medians and sums for its fix."""

    evidence: tuple[Evidence, ...]
    summary: Row


def collect_details(
    impacts: Sequence[Impact], found: Sequence[Calls], calls: ArrangedCalls, *, most: int
) -> list[Detail]:
    """Return the detail of each finding, with at most `most` calls as evidence.

    `found` is what each detector flags.
    """
    if not impacts:
        return []
    detectors = sorted({impact.detector_index for impact in impacts})
    flagged = pl.concat([found[index] for index in detectors])
    (used,) = fetch(flagged.select((pl.col(*BASIS) != 0).any()))
    basis = [name for name in BASIS if used[name]]
    # The flagged calls of these findings, with their counts and the finding's number: in the order
    # of the calls, because grouping by a sorted column takes a third of the time.
    in_order = sorted(range(len(impacts)), key=lambda index: _place(impacts[index]))
    impacts = [impacts[index] for index in in_order]
    parts = []
    for index in detectors:
        kinds = len(DETECTORS[index].kinds)
        rows = [
            (impact.group_number * kinds + impact.kind_index, number)
            for number, impact in enumerate(impacts)
            if impact.detector_index == index
        ]
        listed = pl.LazyFrame(rows, {_PLACE: pl.Int64, "finding": pl.Int64}, orient="row")
        place = (pl.col("group").cast(pl.Int64) * kinds + pl.col("kind")).alias(_PLACE)
        in_window = found[index].filter(pl.col("in_window")).select(place, *_CALL, *basis)
        parts.append(join_numbered(in_window, listed, _PLACE).drop(_PLACE))
    joined = collect(pl.concat(parts))
    if joined["finding"].is_sorted():
        joined = joined.with_columns(pl.col("finding").set_sorted())
    own = joined.hstack(calls.look_up(joined["number"], COUNTS)).lazy()
    evidence = _pick_evidence(own, calls, impacts, most, basis)
    others = [
        pl.col("prompt_tokens").median().alias("median_prompt_tokens"),
        pl.col("completion_tokens").median().alias("median_completion_tokens"),
        pl.col("declared_max_tokens").median().alias("median_declared_max_tokens"),
        pl.col("completion_tokens").max().alias("largest_completion_tokens"),
        pl.col("cached_tokens", "cache_write_tokens").sum(),
        *(each.alias(name) for name, (column, each) in _OF_BASIS.items() if column in basis),
    ]
    medians = ("median_prompt_tokens", "median_completion_tokens", "median_declared_max_tokens")
    counts = ("largest_completion_tokens", "cached_tokens", "cache_write_tokens")
    summaries = {
        row["finding"]: {
            **{name: float(row[name]) for name in medians},
            **{name: float(row.get(name, 0)) for name in _OF_BASIS},
            **{name: int(row[name]) for name in counts},
            "cost_usd": usd(row, "cost_usd"),
        }
        for row in collect_usd(own, "cost_usd", by=["finding"], others=others).iter_rows(named=True)
    }
    details = {
        index: Detail(evidence[number], summaries[number]) for number, index in enumerate(in_order)
    }
    return [details[index] for index in range(len(impacts))]


def _place(impact: Impact) -> tuple[int, ...]:
    return impact.detector_index, impact.group_number, impact.kind_index


def _pick_evidence(
    found: Calls,
    calls: ArrangedCalls,
    impacts: Sequence[Impact],
    most: int,
    basis: Sequence[str],
) -> list[tuple[Evidence, ...]]:
    """Return the most expensive calls of each finding; ties by time, ID and counts."""
    evidence: list[list[Evidence]] = [[] for _ in impacts]
    if most > 0:
        # Without the calls of each finding that cost less than the last that is listed.
        least = pl.col("cost_usd").top_k(most).min().alias("least_usd")
        limited = join_numbered(found, found.group_by("finding").agg(least), "finding")
        few = collect(limited.filter(pl.col("cost_usd") >= pl.col("least_usd")))
        named = few.hstack(calls.look_up(few["number"], ["request_id"]))
        order = ["at_us", "request_id", *COUNTS, "saving_usd", *basis]
        picked = (
            named.sort("cost_usd", *order, descending=[True, *(False for _ in order)])
            .group_by("finding", maintain_order=True)
            .head(most)
        )
        for row in picked.iter_rows(named=True):
            evidence[row["finding"]].append(
                Evidence(
                    ts=iso_time(row["at_us"]),
                    model=impacts[row["finding"]].group.model,
                    **{name: row[name] for name in COUNTS},
                    cost_usd=rounded(row["cost_usd"]),
                    saving_usd=rounded(row["saving_usd"]),
                    request_id=row["request_id"],
                    # A number that a detector has no use for is not in the document.
                    **{name: round(row[name], _DECIMALS) for name in BASIS if row.get(name)},
                )
            )
    return [tuple(calls) for calls in evidence]
