"""Converts findings to dataframes."""

from typing import Any, Final

import polars as pl

from detectors.contract import Report

_COLUMNS: Final = pl.Schema(
    {
        "id": pl.String(),
        "detector": pl.String(),
        "kind": pl.String(),
        "route": pl.String(),
        "provider": pl.String(),
        "model": pl.String(),
        "calls": pl.Int64(),
        "severity": pl.String(),
        "confidence": pl.String(),
        "monthly_cost_impact_usd": pl.Float64(),
        "impact_low": pl.Float64(),
        "impact_high": pl.Float64(),
        "observed_cost_impact_usd": pl.Float64(),
        "first_seen": pl.String(),
        "last_seen": pl.String(),
        "suggested_model": pl.String(),
        "fix": pl.String(),
        "formula": pl.String(),
    }
)


def to_polars(report: Report) -> pl.DataFrame:
    return pl.DataFrame(_columns(report), schema=_COLUMNS)


def to_pandas(report: Report) -> Any:
    import pandas as pd  # type: ignore[import-untyped]  # optional

    return pd.DataFrame(_columns(report))


def _columns(report: Report) -> dict[str, list[Any]]:
    return {
        name: [
            float(getattr(finding, name) or 0) if kind == pl.Float64() else getattr(finding, name)
            for finding in report.findings
        ]
        for name, kind in _COLUMNS.items()
    }
