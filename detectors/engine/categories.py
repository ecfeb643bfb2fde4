"""Labels that repeat as categories, which take a quarter of the memory of texts.

Joining and grouping by categories takes a third of the time, but making categories of texts that
hardly repeat takes longer than it saves.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

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
    few = [each for each in texts if each.head(SAMPLED_CALLS).n_unique() <= MOST_CATEGORIES]
    columns = list[pl.Expr | pl.Series]()
    for labels in few:
        # Most labels that are equal for some calls are for all.
        if labels.is_empty() or not labels.eq_missing(labels[0]).all():
            columns.append(pl.col(labels.name).cast(pl.Categorical()))
        else:
            columns.append(labels[:1].cast(pl.Categorical()).new_from_index(0, len(labels)))
    return frame.with_columns(columns)


def compose_labels(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Write these labels in Unicode's composed form (NFC); most frames have none to change."""
    composed = []
    for labels in (frame[name] for name in names if name in frame.columns):
        if labels.dtype.base_type() in (pl.String, pl.Categorical, pl.Enum):
            few = labels if labels.dtype == pl.String else find_distinct(labels).cast(pl.String)
            # Other characters than ASCII has are seen by the bytes that they take.
            if (few.str.len_bytes() != few.str.len_chars()).any():
                composed.append(labels.cast(pl.String).str.normalize("NFC"))
    return frame.with_columns(composed) if composed else frame


def find_distinct(labels: pl.Series) -> pl.Series:
    """Return the distinct labels of a column of categories, without null.

    Marking each category takes half of the time that hashing takes.
    """
    codes = labels.to_physical().drop_nulls()
    if codes.is_empty() or (most := cast("int", codes.max())) > len(codes):
        return labels.unique().drop_nulls()
    is_used = pl.repeat(False, most + 1, dtype=pl.Boolean, eager=True).scatter(codes, True)
    return is_used.arg_true().cast(codes.dtype).cat.to(labels.dtype)


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
