"""Files of an account's calls: merged, each call once, one file per day or month.

Days with few calls share a file with others of their month.

A stored file has the columns of a frame of calls, the import that brought each call as
`import_id`, and its calls in order of time; those of large files are in order of bucket first,
so that a part of an audit reads a slice. The frame of a single import has no such column yet.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO, BinaryIO, Final

import msgspec
import polars as pl

from detectors.contract import SPARSE_CALLS
from detectors.engine import compose_labels
from detectors.formats.adapters.labels import EVENT_ID, RESPONSE_ID, RESPONSE_IDS
from detectors.formats.columns import BILLING, OF_SOURCE, WRITTEN_LABELS
from detectors.frames.parts import ROW_GROUP, sort_by_bucket
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, concat, from_bytes, to_bytes
from detectors.report.account.file_counts import FileCounts

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
_FILE: Final = "file"  # a number
# What had different calls of an ID has them still.
_APART: Final = (IMPORT, _FILE)
_BESIDE: Final = pl.DataFrame(schema={IMPORT: pl.String, _FILE: pl.Int32})
_SAME_RESPONSE: Final = ("request_id", "prompt_tokens", "completion_tokens")
_NEAR: Final = timedelta(minutes=1)
# What an agent's event has in common with the call in its session file.
_SAME_EVENT: Final = ("session_id", "prompt_tokens", "completion_tokens")
_ROW_GROUP: Final = 250_000
# Counting fewer calls again takes no longer than reading what was counted.
FEW_CALLS: Final = 20_000
# Accounts with files of so many calls may be too large for memory, and are audited in parts.
MANY_CALLS: Final = 500_000
_STARTS: Final = "tallystick_buckets_1"
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
    # An earlier release has stored labels as they came.
    frame = compose_labels(from_bytes(pl.read_parquet(file)), WRITTEN_LABELS)
    return frame if import_id is None else frame.with_columns(pl.lit(import_id).alias(IMPORT))


def write_calls(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write calls as Parquet, many with their counts; the same calls give the same bytes."""
    counts = FileCounts.of([frame]) if frame.height > FEW_CALLS else None
    is_short = counts is not None and counts.rows * _CALLS_PER_COUNT <= frame.height
    metadata, row_group = counts.to_metadata() if counts and is_short else {}, _ROW_GROUP
    if frame.height >= MANY_CALLS:
        frame, starts = sort_by_bucket(frame)
        metadata, row_group = metadata | {_STARTS: json.dumps(starts)}, ROW_GROUP
    to_bytes(frame).rechunk().write_parquet(
        file, compression="zstd", row_group_size=row_group, metadata=metadata or None
    )


def read_starts(file: Path) -> list[int] | None:
    """Return where each bucket begins in a file that is in order of bucket; None for others."""
    starts = pl.read_parquet_metadata(file).get(_STARTS)
    return None if starts is None else json.loads(starts)


# An import, and the first and last day of its calls that were deleted.
Deleted = tuple[str, date, date]


def merge_files(
    frames: Iterable[pl.DataFrame],
    *,
    months_before: date,
    today: date | None = None,
    without: Collection[str] = (),
    deleted: Sequence[Deleted] = (),
) -> Iterator[CallFile]:
    """Merge calls into one file per day, or per month for months that end before a day.

    Consecutive days of one month share a file while they have at most `SPARSE_CALLS` calls.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        Calls as `read_calls` returns them.
    months_before : date
        Earlier months, in UTC, become one file each.
    today : date, optional
        A day that shares its file with no other, because more of its calls will come.
    without : collection of str
        Imports whose calls are excluded, because a later reading replaces them.
    deleted : sequence of (str, date, date)
        Imports whose calls of some days, in UTC, are excluded.

    Yields
    ------
    CallFile
        The calls of the days in order of time; days without calls have no file. Duplicates count on
        the day of the call that was kept.
    """
    merged = _join(list(frames))
    if without:
        merged = merged.filter(~pl.col(IMPORT).is_in(list(without)))
    if deleted:
        kinds = {IMPORT: pl.String, "first": pl.Date, "last": pl.Date}
        ranges = pl.DataFrame(deleted, kinds, orient="row")
        dated = merged.select(IMPORT, pl.col("ts").dt.date().alias("day")).with_row_index("row")
        is_deleted = pl.col("day").is_between("first", "last")
        rows = dated.join(ranges, on=IMPORT).filter(is_deleted)["row"]
        merged = merged.filter(~pl.int_range(pl.len()).is_in(rows.implode()))
    if merged.is_empty():
        return
    merged = merged.sort("ts", maintain_order=True)
    once, copies = _drop_duplicates(merged)
    # The calls are sorted, so each period is a slice.
    days = once["ts"].dt.date()
    starts, calls, before = list[int](), 0, date.min
    for number, day in days.rle().struct.unnest().iter_rows():
        is_same_month = (day.year, day.month) == (before.year, before.month)
        next_month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        is_month = is_same_month and next_month <= months_before
        is_sparse = calls + number <= SPARSE_CALLS and today not in (before, day)
        at = starts[-1] + calls if starts else 0
        if is_month or (is_same_month and is_sparse):
            calls += number
        else:
            starts.append(at)
            calls = number
        before = day
    for begin, stop in pairwise([*starts, days.len()]):
        duplicates = int(copies[begin:stop].sum())
        yield CallFile(days[begin], days[stop - 1], once[begin:stop].drop(_FILE), duplicates)


def find_repeated(new: Sequence[pl.DataFrame], others: Iterable[Path | BinaryIO]) -> list[bool]:
    """Return for each of the other files whether it has a call that is among the new ones, too.

    Without a request ID among the new calls, no other file is read.
    """
    named = pl.concat([frame["request_id"] for frame in new]).unique()
    named = named.filter(named != "")
    if named.is_empty():
        return []
    calls = _join(new)
    has_events = named.str.starts_with(EVENT_ID).any()
    sessions = pl.Series([], dtype=pl.String)
    if "session_id" in calls.columns:
        sessions = calls["session_id"].drop_nulls().unique()
        sessions = sessions.filter(sessions != "")
    found = []
    for other in others:
        ids = pl.read_parquet(other, columns=["request_id"])["request_id"]
        is_of_agents = has_events or ids.str.starts_with(EVENT_ID).any()
        if not is_of_agents and not ids.is_in(named.implode()).any():
            found.append(False)
            continue
        if not isinstance(other, Path):
            other.seek(0)
        is_suspect = pl.col("request_id").is_in(named.implode())
        stored = read_calls(other)
        if is_of_agents and "session_id" in stored.columns:
            is_suspect |= pl.col("session_id").is_in(sessions.implode())
        suspects = stored.filter(is_suspect).with_columns(pl.lit(0).alias(_FILE))
        is_same = pl.col("request_id").is_in(suspects["request_id"].implode())
        if is_of_agents and "session_id" in suspects.columns and "session_id" in calls.columns:
            is_same |= pl.col("session_id").is_in(suspects["session_id"].implode())
        same = calls.filter(is_same)
        once, both = (_drop_duplicates(each)[0] for each in (same, _join([same, suspects])))
        found.append(both.height < once.height + suspects.height)
    return found


def _join(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Join frames that may lack different optional columns, and number those without a number."""
    numbered = [
        frame if _FILE in frame.columns else frame.with_columns(pl.lit(number).alias(_FILE))
        for number, frame in enumerate(frames, -len(frames))
    ]
    beside = pl.concat([_BESIDE, *(frame.select(_APART) for frame in numbered)])
    return pl.concat([concat([frame.drop(_APART) for frame in numbered]), beside], how="horizontal")


def _drop_duplicates(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Keep one of the calls that are the same, in order of time, and count the copies of each."""
    calls = _drop_events(calls)
    # Hashes first, since most days have no duplicates and comparing texts takes longer.
    hashes, named = calls["request_id"].hash(), calls["request_id"] != ""
    if hashes.filter(named).n_unique() == named.sum():
        return calls.drop("copies"), calls["copies"] - 1
    is_suspect = named & hashes.is_duplicated()
    suspects = calls.filter(is_suspect)
    # Of copies of a response, one may lack the cached tokens, which cost less.
    cached = pl.col("cached_tokens").fill_null(0) + pl.col("cache_write_tokens").fill_null(0)
    given = [pl.col(name) != "" for name in _LABELS]
    for name in _OPTIONAL:
        if name in suspects.columns:
            kind = CALLS.get(name) or OPTIONAL_CALLS[name]
            column = pl.col(name)
            given.append(column != "" if kind == pl.String else column.fill_null(0) != 0)
    labels = -pl.sum_horizontal(given).cast(pl.Int32)  # smaller the more labels a call has
    ordered = suspects.sort(cached == 0, labels, *sorted(suspects.columns))
    counts = pl.struct("prompt_tokens", "completion_tokens")
    same = ordered.with_columns(
        pl.col("copies").sum().over(SAME_CALL),
        *(counts.n_unique().over("request_id", each).alias(f"in_{each}") for each in _APART),
    )
    once = _join_responses(same.unique(subset=SAME_CALL, keep="first", maintain_order=True))
    kept = pl.concat([calls.filter(~is_suspect), once.select(calls.columns)]).sort(
        "ts", maintain_order=True
    )
    return kept.drop("copies"), kept["copies"] - 1


def _drop_events(calls: pl.DataFrame) -> pl.DataFrame:
    """Drop agents' events of calls that another source has, too; count the `copies` of each call.

    An event has no ID of its session file. A call of its session with the same counts, within a
    minute of the answer, is the same; it has more to say than the event.
    """
    calls = calls.with_columns(pl.lit(1, pl.UInt32).alias("copies"))
    is_event = calls["request_id"].str.starts_with(EVENT_ID)
    if "session_id" not in calls.columns or not is_event.any():
        return calls
    end = pl.col("ts") + pl.duration(milliseconds=pl.col("latency_ms").fill_null(0))
    rows = calls.select("ts", end.alias("end"), is_event.alias("is_event"), *_SAME_EVENT)
    rows = rows.with_row_index("row").filter(pl.col("session_id") != "")
    is_shared = pl.col("is_event").any() & ~pl.col("is_event").all()
    rows = rows.filter(is_shared.over(_SAME_EVENT)).sort(*_SAME_EVENT, "ts", "row")
    in_order = rows.select(*_SAME_EVENT, "is_event", "ts", "end", "row").iter_rows()
    pairs = list[tuple[int, int]]()
    for _same, group in groupby(in_order, itemgetter(*range(len(_SAME_EVENT)))):
        alike = list(group)  # of a session, with the same counts
        others = iter([(ts, row) for *_same, is_one, ts, _end, row in alike if not is_one])
        call = next(others, None)
        for *_same, is_one, start, until, row in alike:
            while is_one and call is not None and call[0] < start - _NEAR:
                call = next(others, None)
            if is_one and call is not None and call[0] <= until + _NEAR:
                pairs.append((row, call[1]))
                call = next(others, None)
    paired = pl.DataFrame(pairs, {"row": pl.UInt32, "of": pl.UInt32}, orient="row")
    numbered = calls.with_row_index("row")
    more = pl.col("row").is_in(paired["of"].implode())
    counted = numbered.with_columns(pl.col("copies") + more.cast(pl.UInt32))
    if BILLING in calls.columns:
        # The event says who pays, which a session's call mostly doesn't.
        said = numbered.select("row", BILLING).join(paired, on="row").drop("row")
        named = counted.join(said, left_on="row", right_on="of", how="left", maintain_order="left")
        own, other = pl.col(BILLING).fill_null(""), pl.col(f"{BILLING}_right").fill_null("")
        counted = named.with_columns(pl.when(own == "").then(other).otherwise(own).alias(BILLING))
    return counted.filter(~pl.col("row").is_in(paired["row"].implode())).select(calls.columns)


def _join_responses(calls: pl.DataFrame) -> pl.DataFrame:
    """Join the calls of one provider's response, which two ways have brought: the first is kept.

    A gateway is the provider in one record and not in another, and names models in its own way.
    The client and a trace begin to count at slightly different times, and may know other counts:
    the larger stay, at the earlier time. An ID on calls that are further apart, or on different
    calls of one import or of one file that was merged, is none: some proxies give all answers the
    same. Then only calls with equal counts are one.
    """
    counts = pl.struct("prompt_tokens", "completion_tokens")
    # An agent logs an answer at its end, a gateway its request.
    end = pl.col("ts") + pl.duration(milliseconds=pl.col("latency_ms").fill_null(0))
    apart = pl.col("ts").max() - end.min()
    kinds = pl.max_horizontal(f"in_{each}" for each in _APART).max()
    numbered = calls.with_columns(
        ((apart.over("request_id") <= _NEAR) & (kinds.over("request_id") == 1)).alias("is_one"),
        (pl.col("ts") - end.min().over(_SAME_RESPONSE) <= _NEAR).alias("is_near"),
    )
    is_same = _is_response_id() & (pl.col("is_one") | pl.col("is_near"))
    # Where the ID is one, counts tell nothing apart.
    key = pl.when("is_one").then(None).otherwise(counts).alias("key")
    same, others = numbered.filter(is_same), numbered.filter(~is_same)
    once = (
        same.with_columns(key)
        .sort(-pl.sum_horizontal("prompt_tokens", "completion_tokens"), maintain_order=True)
        .with_columns(pl.col("ts").min().over("request_id", "key"))
        .with_columns(pl.col("copies").sum().over("request_id", "key"))
        .unique(subset=["request_id", "key"], keep="first", maintain_order=True)
    )
    return pl.concat([others.select(calls.columns), once.select(calls.columns)])


def _is_response_id() -> pl.Expr:
    identity = pl.col("request_id")
    known = [
        pl.col("provider").is_in(providers) & identity.str.contains(pattern)
        for providers, pattern in RESPONSE_IDS
    ]
    return pl.any_horizontal(identity.str.contains(RESPONSE_ID), *known)
