"""The calls behind a finding: every one of them, with the numbers that its saving came from."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Final

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines import Calls, Engine
from detectors.formats.columns import OPTIONAL_COUNTS
from detectors.prices.calls import COUNTS
from detectors.prices.rates import TOKENS_PER_MTOK
from detectors.report.impacts import Impact, sum_flagged
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


class FlaggedFrames(msgspec.Struct, frozen=True, dict=True):
    """The priced calls of an audit, and what each detector flagged among them."""

    calls: Calls
    found: Sequence[Calls]
    engine: Engine

    @cached_property
    def by_day(self) -> Calls:
        """Return the sums of `sum_flagged`, which impacts are added up from."""
        flagged = nw.concat(list(self.found), how="vertical")
        (by_day,) = self.engine.apply("flagged", lambda calls: [sum_flagged(calls)], flagged)
        return self.engine.keep(by_day)

    def reopen(self) -> AbstractContextManager["FlaggedFrames"]:
        """Return the frames themselves: they are still in memory."""
        return nullcontext(self)

    def collect(self, impact: Impact) -> pl.DataFrame:
        """Return the calls of the impact in time order."""
        flagged = self.found[impact.detector_index].filter(
            nw.col("kind") == impact.kind_index,
            nw.col("group") == impact.group_number,
            nw.col("in_window"),
        )
        known = self.calls.collect_schema().names()
        counts = [name for name in known if name in (*COUNTS, *OPTIONAL_COUNTS)]
        rates = [name for name in known if name in _RATES]
        looked_up = self.engine.look_up(flagged, self.calls, ["request_id", *counts, *rates])
        frame: pl.DataFrame = looked_up.collect("polars").to_native()
        ts = pl.col("at_us").cast(pl.Datetime("us", "UTC")).alias("ts")
        per_mtok = [(pl.col(name) * TOKENS_PER_MTOK).round(9).alias(_RATES[name]) for name in rates]
        group = impact.group
        labels = [
            pl.lit(value, pl.String).alias(name)
            for name, value in (("provider", group.provider), ("model", group.model))
        ]
        return frame.sort("number").select(
            "request_id", ts, *labels, *counts, *per_mtok, *BASIS, *_DOLLARS
        )


Reopen = Callable[[], AbstractContextManager[FlaggedFrames]]


class CallSource(msgspec.Struct, frozen=True):
    """Where the calls behind the findings of a report can be read, as long as it is in memory."""

    impacts: Mapping[str, Impact]
    reopen: Reopen

    def collect(self, finding_ids: Sequence[str]) -> list[pl.DataFrame]:
        """Return the calls behind these findings."""
        with self.reopen() as frames:
            return [frames.collect(self.impacts[name]) for name in finding_ids]


def write_calls(calls: pl.DataFrame) -> str:
    """Return the calls as CSV, with times in ISO 8601 and no cell that could be a formula."""
    written = calls.with_columns(pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ"))
    rows = ([_cell(value) for value in row] for row in written.iter_rows())
    return write_csv(calls.columns, rows)


def _cell(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
