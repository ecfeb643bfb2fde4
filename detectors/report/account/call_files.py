"""Files of an account's calls: merged, each call once, one file per day or month.

A stored file has the columns of a frame of calls, the import that brought each call as
`import_id`, and its calls in order of time. The frame of a single import has no such column yet.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import IO, BinaryIO, Final

import msgspec
import polars as pl

from detectors.formats.columns import OF_SOURCE
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, concat, from_bytes, to_bytes
from detectors.report.account.file_counts import FileCounts
from detectors.report.counting.records import FEW_CALLS

IMPORT: Final = "import_id"
# Calls that are equal in these and have a request ID are one call, whatever brought it: an import
# may lack the labels, the limit and the other counts that another has.
SAME_CALL: Final = (
    "request_id",
    "ts",
    "provider",
    "model",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
)
# Providers never give two responses the same ID; what users name may name several calls. A gateway
# is the provider in one record and not in another, and names models in its own way.
_RESPONSE_ID: Final = r"^(?:chatcmpl-|cmpl-|resp_|msg_|gen-)"
_UUID: Final = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
# IDs that are known by their provider, because they begin with nothing.
_RESPONSE_IDS: Final = {
    "aws": _UUID,
    "cohere": _UUID,
    "google": r"^[A-Za-z0-9_-]{20,24}$",
    "mistral": r"^[0-9a-f]{32}$",
}
_SAME_RESPONSE: Final = ("request_id", "prompt_tokens", "completion_tokens")
_NEAR: Final = timedelta(minutes=1)
_ROW_GROUP: Final = 250_000
# Counts of routes that hardly repeat would take as much space as the calls.
_CALLS_PER_COUNT: Final = 4
_LABELS: Final = ("tag", "endpoint", "prefix_hash")
_OPTIONAL: Final = (*(name for name in OPTIONAL_CALLS if name not in OF_SOURCE), "latency_ms")


class CallFile(msgspec.Struct, frozen=True):
    """The calls of some days, and how many others were dropped because they were the same calls."""

    first_day: date
    last_day: date
    frame: pl.DataFrame
    duplicates: int

    @property
    def imports(self) -> list[str]:
        """Return the imports that brought calls of this file."""
        return self.frame[IMPORT].unique().sort().to_list()


def read_calls(file: Path | BinaryIO, import_id: str | None = None) -> pl.DataFrame:
    """Read a file of calls; `import_id` names the import if the file is the frame of one."""
    frame = from_bytes(pl.read_parquet(file))
    return frame if import_id is None else frame.with_columns(pl.lit(import_id).alias(IMPORT))


def write_calls(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write calls as Parquet, many with their counts; the same calls give the same bytes."""
    counts = FileCounts.of(frame) if frame.height > FEW_CALLS else None
    is_short = counts is not None and counts.rows * _CALLS_PER_COUNT <= frame.height
    to_bytes(frame).rechunk().write_parquet(
        file,
        compression="zstd",
        row_group_size=_ROW_GROUP,
        metadata=counts.to_metadata() if counts and is_short else None,
    )


def merge_files(
    frames: Iterable[pl.DataFrame], *, months_before: date, without: Collection[str] = ()
) -> Iterator[CallFile]:
    """Merge calls into one file per day, or per month for months that end before a day.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        Calls as `read_calls` returns them.
    months_before : date
        Earlier months, in UTC, become one file each.
    without : collection of str
        Imports whose calls are excluded, because a later reading replaces them.

    Yields
    ------
    CallFile
        The calls of one day or month in order of time; days without calls have no file. Duplicates
        are always of the same day, since equal calls have the same time.
    """
    merged = _join(list(frames))
    if without:
        merged = merged.filter(~pl.col(IMPORT).is_in(list(without)))
    if merged.is_empty():
        return
    merged = merged.sort("ts", maintain_order=True)
    # The calls are sorted, so each period is a slice.
    days = merged["ts"].dt.date()
    starts = _periods(days[0], days[-1], months_before)
    ends = [days.search_sorted(day, side="left") for day in starts]
    for begin, stop in pairwise(ends):
        if begin < stop:
            once, duplicates = _drop_duplicates(merged[begin:stop])
            yield CallFile(days[begin], days[stop - 1], once, duplicates)


def _join(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Join frames that may lack different optional columns."""
    imports = pl.concat([pl.Series(IMPORT, [], pl.String), *(frame[IMPORT] for frame in frames)])
    return concat([frame.drop(IMPORT) for frame in frames]).with_columns(imports)


def _periods(first: date, last: date, months_before: date) -> list[date]:
    """Return the first days of all periods, and the day after the last period."""
    starts = [_start(first, months_before)]
    while starts[-1] <= last:
        starts.append(_next(starts[-1], months_before))
    return starts


def _start(day: date, months_before: date) -> date:
    return day.replace(day=1) if _next_month(day) <= months_before else day


def _next(start: date, months_before: date) -> date:
    following = _next_month(start)
    return following if start.day == 1 and following <= months_before else start + timedelta(days=1)


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _drop_duplicates(calls: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Keep one of the calls that are the same: that with the most labels."""
    # Hashes first, since most days have no duplicates and comparing texts takes longer.
    hashes, named = calls["request_id"].hash(), calls["request_id"] != ""
    if hashes.filter(named).n_unique() == named.sum():
        return calls, 0
    row = pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")
    suspects = calls.with_columns(row).filter(named & hashes.is_duplicated())
    # Of copies of a response, one may lack the cached tokens, which cost less.
    cached = pl.col("cached_tokens").fill_null(0) + pl.col("cache_write_tokens").fill_null(0)
    ordered = suspects.sort(cached == 0, _labels(suspects.columns), *sorted(suspects.columns))
    kept = _drop_same_responses(ordered.unique(subset=SAME_CALL, keep="first", maintain_order=True))
    dropped = suspects["row"].filter(~suspects["row"].is_in(kept["row"].implode()))
    rows = pl.int_range(calls.height, dtype=pl.UInt32, eager=True)
    return calls.filter(~rows.is_in(dropped.implode())), dropped.len()


def _drop_same_responses(calls: pl.DataFrame) -> pl.DataFrame:
    """Keep the first of calls with one provider's response, which two ways have brought.

    The client and a trace begin to count at slightly different times, and may know other counts.
    """
    begins = pl.col("ts").min().over(_SAME_RESPONSE)
    is_same = _is_response_id() & (pl.col("ts") - begins <= _NEAR)
    same, others = calls.filter(is_same), calls.filter(~is_same)
    once = same.unique(subset=_SAME_RESPONSE, keep="first", maintain_order=True)
    return pl.concat([others, once])


def _is_response_id() -> pl.Expr:
    identity = pl.col("request_id")
    known = [
        (pl.col("provider") == provider) & identity.str.contains(pattern)
        for provider, pattern in _RESPONSE_IDS.items()
    ]
    return pl.any_horizontal(identity.str.contains(_RESPONSE_ID), *known)


def _labels(columns: Sequence[str]) -> pl.Expr:
    """Return an expression that is smaller the more labels a call has."""
    given = [pl.col(name) != "" for name in _LABELS]
    for name in _OPTIONAL:
        if name in columns:
            kind = CALLS.get(name) or OPTIONAL_CALLS[name]
            column = pl.col(name)
            given.append(column != "" if kind == pl.String else column.fill_null(0) != 0)
    return -pl.sum_horizontal(given).cast(pl.Int32)
