"""Counts of a file's metered calls, kept in the metadata of the file.

Calls of a file never change, so an audit of whole files adds up what was counted when they were
written. That takes a tenth of the time of counting all calls again.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import polars as pl

from detectors.formats.columns import UNKNOWN, UNKNOWN_LARGEST
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import Counted
from detectors.report.account.traffic import add_slots, count_slots
from detectors.report.counting import counts
from detectors.report.counting.billing import have_plan, is_included
from detectors.report.counting.counts import Counts

# Another name for other columns or another meaning, so that what earlier releases wrote is counted.
_NAME: Final = "tallystick_counts_1"
# Of a file that has calls of a plan, too, which earlier releases counted with the others.
_METERED: Final = "tallystick_counts_of_metered_calls_1"
_DAYS: Final = (
    *("day", "calls", "first_us", "last_us", "seconds"),
    *("overfull", "hashed", "assumed", "tokens"),
)
_MODELS: Final = {"provider": pl.String, "model": pl.String, "calls": pl.Int64, "tokens": pl.Int64}
_UNKNOWN: Final = {UNKNOWN: pl.String, "calls": pl.Int64, UNKNOWN_LARGEST: pl.Int64}
_MODEL: Final = ("provider", "model")


class _Stored(msgspec.Struct, frozen=True):
    days: bytes
    models: bytes
    slots: bytes
    unknown: bytes | None = None  # an earlier release counted none, or one name a day


_STORED: Final = msgspec.json.Decoder(_Stored)


class FileCounts(msgspec.Struct, frozen=True):
    """Calls by day, by model and by slot of traffic, as the audit of their file counts them.

    `has_included` says that the file has calls of a plan, which are not counted.
    """

    days: pl.DataFrame
    models: pl.DataFrame
    slots: pl.DataFrame
    unknown: pl.DataFrame
    has_included: bool = False

    @classmethod
    def of(cls, frames: Iterable[pl.DataFrame]) -> Self:
        """Count the calls of frames, which have the columns of a stored file."""
        tables, slots, has_included = list[Counts](), list[pl.DataFrame](), False
        for frame in frames:
            calls = checked_calls(frame)
            is_plan = is_included(calls)
            metered = calls.filter(~is_plan)
            tables.append(counts.collect_tables(counts.count_calls(metered)))
            slots.append(count_slots(metered))
            has_included |= bool(calls.select(is_plan.any()).collect().item())
        counted = counts.add_counts(tables)
        return cls(
            _to_frame(counts.days_of(counted), dict.fromkeys(_DAYS, pl.Int64)),
            _to_frame(counts.rows_of(counted, counts.MODELS), _MODELS),
            add_slots(slots),
            _to_frame(counts.rows_of(counted, counts.UNKNOWN_FIELDS), _UNKNOWN),
            has_included,
        )

    @classmethod
    def add(cls, counted: Sequence[Self], *, instead: pl.DataFrame | None = None) -> Self:
        """Add up the counts of files; `instead` has those of the days that they have in common."""
        days = pl.concat([each.days for each in counted], how="diagonal")
        if instead is not None:
            own = days.filter(~pl.col("day").is_in(instead["day"].implode()))
            days = pl.concat([own, instead], how="diagonal")
        models = pl.concat([each.models for each in counted])
        unknown = pl.concat([each.unknown for each in counted]).group_by(UNKNOWN)
        return cls(
            days,
            models.group_by(_MODEL).agg(pl.col("calls", "tokens").sum()),
            add_slots([each.slots for each in counted]),
            unknown.agg(pl.col("calls").sum(), pl.col(UNKNOWN_LARGEST).max()),
            any(each.has_included for each in counted),
        )

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Return the counts in a file's metadata, or None if it has none."""
        metadata = pl.read_parquet_metadata(file)
        has_included = _METERED in metadata
        content = metadata.get(_METERED) or metadata.get(_NAME)
        if content is None:
            return None
        stored = _STORED.decode(content)
        models = _read(stored.models)
        if not has_included and have_plan(models.select("provider").iter_rows(named=True)):
            return None  # an earlier release has counted calls of plans with the others
        unknown = _read(stored.unknown) if stored.unknown else pl.DataFrame(schema=_UNKNOWN)
        return cls(_read(stored.days), models, _read(stored.slots), unknown, has_included)

    def to_metadata(self) -> dict[str, str]:
        """Return the metadata that `read` finds in a Parquet file; equal counts give equal text."""
        days, models = self.days.sort("day"), self.models.sort(_MODEL)
        slots = self.slots.sort(self.slots.columns)
        unknown = _write(self.unknown.sort(UNKNOWN)) if self.unknown.height else None
        stored = _Stored(_write(days), _write(models), _write(slots), unknown)
        name = _METERED if self.has_included else _NAME
        return {name: msgspec.json.encode(stored).decode()}

    def to_counted(self) -> Counted:
        return Counted(
            days=self.days.rows(named=True),
            models=self.models.rows(named=True),
            unknown=self.unknown.rows(named=True),
        )

    @property
    def rows(self) -> int:
        return self.days.height + self.models.height + self.slots.height

    @property
    def ends(self) -> tuple[int, int]:
        """Return the times of the first call and of the last, in microseconds since 1970."""
        return min(self.days["first_us"]), max(self.days["last_us"])


def _to_frame(rows: Sequence[dict[str, object]], empty: dict[str, Any]) -> pl.DataFrame:
    """Return rows with the columns and types that all files have."""
    return pl.DataFrame(rows, schema=empty)


def _write(frame: pl.DataFrame) -> bytes:
    content = BytesIO()
    frame.write_parquet(content, compression="zstd")
    return content.getvalue()


def _read(content: bytes) -> pl.DataFrame:
    return pl.read_parquet(BytesIO(content))
