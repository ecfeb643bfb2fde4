"""The calls behind each finding: some of them as evidence, all of them as medians and sums."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import polars as pl

from detectors.calls import COUNTS
from detectors.contract import Evidence
from detectors.report.impacts import FINDING, Impact
from detectors.report.money import rounded, units, usd

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def find_concerned(
    flagged: pl.DataFrame, calls: pl.DataFrame, impacts: Mapping[str, Impact]
) -> pl.DataFrame:
    """Every flagged call of these findings, with its counts and the id of the finding."""
    listed = pl.DataFrame(
        [(i.place, i.kind_place, i.group_number, name) for name, i in impacts.items()],
        schema={**{key: flagged.schema[key] for key in FINDING}, "finding": pl.Categorical},
        orient="row",
    )
    found = flagged.lazy().join(listed.lazy(), on=FINDING).drop(FINDING).collect()
    # Calls lie in the order of their numbers, so that each is found without a search.
    counts = calls.lazy().select(pl.col("at_us", *COUNTS).gather(found["number"]))
    return found.drop("number").hstack(counts.collect())


def pick_evidence(
    concerned: pl.DataFrame, impacts: Mapping[str, Impact], most: int
) -> dict[str, tuple[Evidence, ...]]:
    """Up to so many calls of each finding, the dearest first; ties by time, then by the counts."""
    if most < 1:
        return {}
    dearest = concerned.group_by("finding").agg(
        pl.col("cost_usd").top_k(most).min().alias("least_usd")
    )
    # Only what is dear enough is sorted: a finding may concern a million calls.
    candidates = concerned.join(dearest, on="finding").filter(
        pl.col("cost_usd") >= pl.col("least_usd")
    )
    rows = (
        candidates.with_columns(-pl.col("cost_usd").alias("order"))
        .sort("order", "at_us", *COUNTS, "saving_usd", maintain_order=False)
        .group_by("finding", maintain_order=True)
        .head(most)
    )
    evidence: dict[str, list[Evidence]] = {}
    for row in rows.iter_rows(named=True):
        name = row["finding"]
        evidence.setdefault(name, []).append(_call(row, impacts[name].group.model))
    return {name: tuple(calls) for name, calls in evidence.items()}


def _call(row: Mapping[str, Any], model: str) -> Evidence:
    return Evidence(
        ts=iso_time(row["at_us"]),
        model=model,
        **{name: row[name] for name in COUNTS},
        cost_usd=rounded(row["cost_usd"]),
        saving_usd=rounded(row["saving_usd"]),
    )


def iso_time(microseconds: int) -> str:
    """ISO 8601 in UTC, with as many decimals of a second as there are."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat().replace("+00:00", "Z")


def summarise(concerned: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """The medians and sums of each finding's calls that its fix may speak of."""
    sums = concerned.group_by("finding").agg(
        pl.col("prompt_tokens").median().alias("median_prompt_tokens"),
        pl.col("completion_tokens").median().alias("median_completion_tokens"),
        pl.col("declared_max_tokens").median().alias("median_declared_max_tokens"),
        pl.col("completion_tokens").max().alias("largest_completion_tokens"),
        pl.col("cached_tokens", "cache_write_tokens").sum(),
        units("cost_usd").sum(),
    )
    return {
        row.pop("finding"): row | {"cost_usd": usd(row["cost_usd"])}
        for row in sums.iter_rows(named=True)
    }
