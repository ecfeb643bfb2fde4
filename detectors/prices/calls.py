"""The frame that the rules read: priced calls in time order, with numbers instead of labels.

Columns, none of them null. A rule may use these and no others:

* `log`: number of the log, 0 unless several are audited at once; a group is of one log.
* `number`: position in the order of group and time; without gaps within a group.
* `group`, `route`: numbers of the (route, provider, model) and of the route alone.
* `has_route`, `prefix`: whether tag or endpoint is given; number of the prefix hash, 0 for none.
* `at_us`: microseconds since 1970 in UTC.
* `in_window`: whether the call is in the window that monthly dollars are projected from.
* `request_id`: the caller's ID, for the evidence; empty if absent.
* `prompt_tokens`, `completion_tokens`, `cached_tokens`, `cache_write_tokens`,
  `declared_max_tokens`: the counts of the record, 0 where absent.
* the columns that `prices.table.Cells` adds.

These columns exist only where some call of the log (or of the logs that are audited together) has
a value, so a rule asks for the schema first. None of them is null either:

* `cache_write_1h_tokens`, `reasoning_tokens`, `audio_prompt_tokens`, `audio_completion_tokens`,
  `image_prompt_tokens`, `image_completion_tokens`, `web_searches`: Int64, 0 where absent. All but
  the last are at most the total that includes them.
* `prefix_2` to `prefix_13`: as `prefix`, of the further levels of `prefix_hashes`, of which
  `prefix_hash_16k` is the fifth and `prefix_hash_64k` the ninth; 0 for none. Calls that have equal
  hashes of a level have equal numbers.
* `levels_given`: how many levels the call's `prefix_hashes` has, 0 without them.
* `session`: number of the `session_id`, 0 for none.
* `environment`, `status` (`ok`, `error`, `cancelled`), `region`: texts, "" where absent.
* `service_tier`: `batch`, `flex`, `priority`, `fast`; "" for the standard tier.
* `billing`: `metered`, `included`; "" where absent.
* the units of the record's `units`: Int64 or, of seconds, Float64; 0 where absent.
* `latency_ms`, `reported_usd`: Float64, -1.0 where absent.

Before pricing, the frame that `read_labels` returns has the same columns, with the labels
`prefix_hash_16k`, `prefix_hash_64k` and `session_id` instead of their numbers, unless some call
has `prefix_hashes`: then all hashes are numbers.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import polars as pl

from detectors.contract import LEVEL_DIGITS, LEVELS_OF_HASHES
from detectors.engine import Calls, attach, collect, join_small, number_labels
from detectors.engine.frames import FEW_CALLS
from detectors.engine.levels import LEVEL_COLUMNS, number_hashes
from detectors.engine.numbering import Numbered, number_rows
from detectors.formats.columns import OPTIONAL_COUNTS, OPTIONAL_LABELS, REPORTED
from detectors.prices.table import CELL, COMPUTED, SHOWN, Cells

LABELS: Final = ("route_label", "provider", "model")
COUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
    "declared_max_tokens",
)
CALL_COLUMNS: Final = (
    *("number", "log", "group", "route", "has_route", "prefix", "at_us", "in_window"),
    *("request_id", *COUNTS, *COMPUTED, *SHOWN),
)
# Those that the others follow from.
_STORED: Final = ("group", "prefix", "at_us", "request_id", *COUNTS, CELL, *COMPUTED)
LEVELS_GIVEN: Final = "levels_given"
# Labels that are replaced by numbers, and their columns; the first always exists.
NUMBERED: Final = {
    **{name: LEVEL_COLUMNS[level] for name, level in LEVELS_OF_HASHES.items()},
    "session_id": "session",
}
# These exist only where some call has a value.
OPTIONAL_CALL_COLUMNS: Final = (
    *OPTIONAL_COUNTS,
    *LEVEL_COLUMNS[1:],
    LEVELS_GIVEN,
    NUMBERED["session_id"],
    *(name for name in OPTIONAL_LABELS if name not in NUMBERED),
    "service_tier",
    "latency_ms",
    REPORTED,
)
NO_LATENCY: Final = -1.0
NOT_REPORTED: Final = -1.0
# The time order within a group, each name where it exists, and then all other columns of the rules.
_TIME_ORDER: Final = (
    *("group", "at_us", "request_id", *COUNTS),
    *LEVEL_COLUMNS,
    "cache_write_1h_tokens",
    "service_tier",
    "cost_usd",
)


def read_labels(calls: Calls, keys: Sequence[str] = ()) -> Calls:
    """Add the tag or endpoint as `route_label`, and drop columns that no rule uses."""
    tagged = pl.when(pl.col("tag") != "").then(pl.col("tag")).otherwise(pl.col("endpoint"))
    calls = calls.with_columns(tagged.alias("route_label"))
    if levels := _present(calls, LEVEL_COLUMNS):
        given = pl.sum_horizontal((pl.col(name) > 0).cast(pl.Int8) for name in levels)
        # Hashes of the other form are levels, too.
        others = _present(calls, LEVELS_OF_HASHES)
        numbers = []
        for name in others:
            level = NUMBERED[name]
            known = pl.col(level) if level in levels else pl.lit(0, pl.UInt64)
            own = number_hashes(pl.col(name).cast(pl.String).str.head(LEVEL_DIGITS))
            numbers.append(pl.when(known > 0).then(known).otherwise(own).alias(level))
        calls = calls.with_columns(given.alias(LEVELS_GIVEN), *numbers).drop(others)
    names = dict.fromkeys((*LEVEL_COLUMNS, *OPTIONAL_CALL_COLUMNS, *NUMBERED))
    optional = _present(calls, names)
    if "latency_ms" in optional:
        calls = calls.with_columns(pl.col("latency_ms").fill_null(NO_LATENCY))
    if REPORTED in optional:
        calls = calls.with_columns(pl.col(REPORTED).fill_null(NOT_REPORTED))
    return calls.select(*keys, *LABELS, "at_us", "request_id", *COUNTS, *optional)


def _present(calls: Calls, names: Iterable[str]) -> list[str]:
    given = set(calls.collect_schema().names())
    return [name for name in names if name in given]


def number_groups(labelled: Calls, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Number every (route, provider, model) and every route of a log, in order of label."""
    groups = number_labels(labelled, "group", (*keys, *LABELS))
    route = [*keys, *LABELS[:1]]
    return groups.join(number_labels(groups.lazy(), "route", route), on=route, how="inner")


class PricedCalls(msgspec.Struct):
    """Calls with their cost, in no order yet, until they are taken; rates come from `cells`."""

    groups: pl.DataFrame
    cells: Cells
    keys: tuple[str, ...]
    _calls: list[pl.DataFrame]

    @property
    def calls(self) -> Calls:
        return self._calls[0].lazy()

    def arrange(self, windows: Sequence[tuple[int, int]]) -> "ArrangedCalls":
        """Sort and number the calls for the rules; they are taken, so that they can be freed.

        `windows` has the first and the last microsecond that monthly dollars of each log are
        projected from.
        """
        named = _present(self.calls, [*_TIME_ORDER, *OPTIONAL_CALL_COLUMNS])
        order = [*dict.fromkeys(named)]
        stored = [*_STORED, *_present(self.calls, OPTIONAL_CALL_COLUMNS)]
        numbered = number_rows(self._calls, "number", order, stored)
        has_route = (pl.col("route_label") != "").cast(pl.Int8).alias("has_route")
        log = pl.col("log") if self.keys else pl.lit(0, pl.Int32).alias("log")
        begins, ends = (pl.Series([each[at] for each in windows], dtype=pl.Int64) for at in (0, 1))
        groups = self.groups.select("group", "route", has_route, log).with_columns(
            pl.lit(begins).gather(pl.col("log")).alias("from_us"),
            pl.lit(ends).gather(pl.col("log")).alias("to_us"),
        )
        arranged = ArrangedCalls(numbered, groups, self.cells, ("number", *stored))
        if numbered.frame.height <= FEW_CALLS:
            return msgspec.structs.replace(arranged, computed=collect(arranged.read()))
        return arranged


class ArrangedCalls(msgspec.Struct, frozen=True):
    """Priced calls in order of group and time, with the columns of the rules."""

    numbered: Numbered
    groups: pl.DataFrame
    cells: Cells
    stored: tuple[str, ...]
    computed: pl.DataFrame | None = None  # all columns of few calls

    def read(self, numbers: pl.Series | None = None) -> Calls:
        """Return all calls, or those with these numbers; columns are computed where they are used.

        Rates and what else follows from a call's group, cell and counts are not stored.
        """
        if self.computed is not None:
            few = self.computed if numbers is None else self.computed[numbers]
            return few.lazy()
        calls = attach(self.numbered.read(numbers).select(self.stored), self.groups, "group")
        is_in = pl.col("at_us").is_between("from_us", "to_us")
        calls = calls.with_columns(is_in.alias("in_window"))
        optional = [name for name in self.stored if name in OPTIONAL_CALL_COLUMNS]
        return self.cells.show(calls).select(*CALL_COLUMNS, *optional)

    def look_up(self, numbers: pl.Series, names: Sequence[str]) -> pl.DataFrame:
        """Return these columns of the calls with these numbers, in their order."""
        return collect(self.read(numbers).select(names))


def price_labelled(
    labelled: Calls, groups: pl.DataFrame, cells: Cells, keys: Sequence[str] = ()
) -> PricedCalls:
    """Price the calls and replace labels by numbers, in no order yet.

    The result is computed here, so that the records can be freed before the calls are sorted.
    """
    labels = [*keys, *LABELS]
    numbers = groups.select(*labels, "group")
    if cells.depends_on_model_only:
        priced = collect(cells.number(numbers.lazy()))
        numbered = join_small(labelled, priced, labels)
    else:
        numbered = cells.number(join_small(labelled, numbers, labels))
    for label in _present(labelled, NUMBERED):
        # Labels are numbered in sorted order, so that the number can replace the label in time
        # order. Of hashes the first digits count.
        ranks, rank = number_labels(labelled, "rank", [label]), pl.col("rank") + 1
        if label in LEVELS_OF_HASHES:
            rank = pl.col(label).cast(pl.String).str.head(LEVEL_DIGITS).rle_id().cast(pl.Int32) + 1
            ranks = ranks.sort("rank")
        number = pl.when(pl.col(label) != "").then(rank).otherwise(pl.lit(0))
        numbering = ranks.select(label, number.cast(pl.Int32).alias(NUMBERED[label]))
        numbered = join_small(numbered, numbering, [label]).drop(label)
    spent = cells.add_cost(numbered)
    kept = dict.fromkeys(_present(spent, [*_STORED, *_TIME_ORDER, *OPTIONAL_CALL_COLUMNS]))
    return PricedCalls(groups, cells, tuple(keys), [collect(spent.select(*kept))])
