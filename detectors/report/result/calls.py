"""The calls behind a finding: every one of them, with the numbers that its saving came from."""

from collections.abc import Callable, Mapping, Sequence
from math import isclose
from typing import Final

import msgspec
import polars as pl

from detectors.engine import Calls
from detectors.errors import SourceChangedError
from detectors.formats.columns import OPTIONAL_COUNTS
from detectors.prices.calls import COUNTS, ArrangedCalls
from detectors.prices.rates import TOKENS_PER_MTOK
from detectors.report.impacts import Impact
from detectors.rules.detector import BASIS
from detectors.wording.findings_csv import write_csv

# Rates per token; the first is the average of a call's whole prompt.
_RATES: Final = {
    "input_usd_per_token": "prompt_usd_per_mtok",
    "input_usd": "input_usd_per_mtok",
    "cache_read_usd": "cache_read_usd_per_mtok",
    "cache_write_usd": "cache_write_usd_per_mtok",
    "cache_write_1h_usd": "cache_write_1h_usd_per_mtok",
    "output_usd": "output_usd_per_mtok",
}
_DOLLARS: Final = ("cost_usd", "saving_usd", "low_usd", "high_usd")


class FlaggedFrames(msgspec.Struct, frozen=True):
    """The priced calls of a part of an audit, and what each detector flagged among them."""

    calls: ArrangedCalls
    found: Sequence[Calls]

    def collect(self, impact: Impact) -> pl.DataFrame:
        """Return the calls of the impact in time order."""
        flagged = (
            self.found[impact.detector_index]
            .filter(
                pl.col("kind") == impact.kind_index,
                pl.col("group") == impact.group_number,
                pl.col("in_window"),
            )
            .collect()
        )
        known = self.calls.read().collect_schema().names()
        counts = [name for name in known if name in (*COUNTS, *OPTIONAL_COUNTS)]
        rates = [name for name in known if name in _RATES]
        own = self.calls.look_up(flagged["number"], ["request_id", *counts, *rates])
        ts = pl.col("at_us").cast(pl.Datetime("us", "UTC")).alias("ts")
        per_mtok = [(pl.col(name) * TOKENS_PER_MTOK).round(9).alias(_RATES[name]) for name in rates]
        group = impact.group
        labels = [
            pl.lit(value, pl.String).alias(name)
            for name, value in (("provider", group.provider), ("model", group.model))
        ]
        frame = flagged.hstack(own)
        return frame.sort("number").select(
            "request_id", ts, *labels, *counts, *per_mtok, *BASIS, *_DOLLARS
        )


# Returns the frames of a part of the audit.
Reopen = Callable[[int], FlaggedFrames]


class CallSource(msgspec.Struct, frozen=True):
    """Where the calls behind the findings of a report can be read.

    `impacts` has the part of the audit and the impact of each finding, and `reopen` reads a part.
    """

    impacts: Mapping[str, tuple[int, Impact]]
    reopen: Reopen

    def collect(self, finding_ids: Sequence[str]) -> list[pl.DataFrame]:
        """Return the calls behind these findings.

        Raises
        ------
        SourceChangedError
            The calls were read again, and don't add up to what the audit has found.
        """
        found: dict[str, pl.DataFrame] = {}
        by_part: dict[int, list[str]] = {}
        for name in finding_ids:
            by_part.setdefault(self.impacts[name][0], []).append(name)
        for part, names in by_part.items():
            frames = self.reopen(part)
            for name in names:
                impact = self.impacts[name][1]
                found[name] = frames.collect(impact)
                saving = found[name]["saving_usd"].sum()
                is_close = isclose(saving, impact.observed_usd, rel_tol=1e-6, abs_tol=1e-6)
                if not is_close or found[name].height != impact.calls:
                    raise SourceChangedError
        return [found[name] for name in finding_ids]


def write_calls(calls: pl.DataFrame) -> str:
    """Return the calls as CSV, with times in ISO 8601 and no cell that could be a formula."""
    written = calls.with_columns(pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ"))
    rows = (
        [f"{value:.12g}" if isinstance(value, float) else str(value) for value in row]
        for row in written.iter_rows()
    )
    return write_csv(calls.columns, rows)
