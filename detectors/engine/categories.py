"""Labels that repeat as categories, which take a quarter of the memory of texts.

Joining and grouping by categories takes a third of the time, but making categories of texts that
hardly repeat takes longer than it saves.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from detectors.formats.columns import LABELS, NUMBERED_LABELS

SAMPLED_CALLS: Final = 10_000
MOST_CATEGORIES: Final = 1_000
# Labels that numbers replace before rules run.
REPEATED: Final = (*(name for name in LABELS if name != "request_id"), *NUMBERED_LABELS)


def categorize(frame: pl.DataFrame, names: Iterable[str] = REPEATED) -> pl.DataFrame:
    """Turn those of these columns of texts into categories that have few values."""
    given = [frame[name] for name in names if name in frame.columns]
    texts = [labels for labels in given if labels.dtype == pl.String]
    columns = list[pl.Expr | pl.Series]()
    for labels in texts:
        sampled = labels.head(SAMPLED_CALLS).n_unique()
        # Most labels that are equal for some calls are for all.
        if sampled == 1 and labels.eq_missing(labels[0]).all():
            columns.append(labels[:1].cast(pl.Categorical()).new_from_index(0, len(labels)))
        elif sampled <= MOST_CATEGORIES:
            columns.append(pl.col(labels.name).cast(pl.Categorical()))
    return frame.with_columns(columns)


def compose_labels(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Write these labels in Unicode's composed form (NFC); most frames have none to change."""
    composed = []
    for labels in (frame[name] for name in names if name in frame.columns):
        if labels.dtype.base_type() in (pl.String, pl.Categorical, pl.Enum):
            few = labels if labels.dtype == pl.String else labels.unique().cast(pl.String)
            # Other characters than ASCII has are seen by the bytes that they take.
            if (few.str.len_bytes() != few.str.len_chars()).any():
                composed.append(labels.cast(pl.String).str.normalize("NFC"))
    return frame.with_columns(composed) if composed else frame


def with_texts(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.selectors.by_dtype(pl.Categorical).cast(pl.String))


def with_equal_types(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Turn categories back into texts where another frame has texts."""
    schemas = [frame.schema for frame in frames]
    texts = {name for schema in schemas for name, kind in schema.items() if kind == pl.String}
    return [
        frame.cast({name: pl.String for name in texts if schema[name] != pl.String})
        for frame, schema in zip(frames, schemas, strict=True)
    ]
