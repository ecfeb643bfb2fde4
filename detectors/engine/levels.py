"""Hashes by level as numbers, which take half of the memory of their digits and compare faster."""

from collections.abc import Sequence
from typing import Final, cast

import polars as pl

from detectors.contract import LEVEL_DIGITS, LEVELS
from detectors.formats.columns import HASHES

# The columns of the levels of hashes, from the first.
LEVEL_COLUMNS: Final = ("prefix", *(f"prefix_{level}" for level in range(2, len(LEVELS) + 1)))
LEVELS_LIST: Final = pl.List(pl.String)
_LARGEST: Final = 2**64 - 1
_ROWS: Final = 50_000
_HASH: Final = f"^[0-9a-f]{{{LEVEL_DIGITS}}}$"
_FIRST: Final = int.from_bytes(b"0" * LEVEL_DIGITS)
# Digits and lowercase letters have this bit, uppercase letters don't.
_LOWERCASE: Final = int.from_bytes(b" " * LEVEL_DIGITS)


def number_hashes(hashes: pl.Expr) -> pl.Expr:
    """Number hashes of 16 hexadecimal digits in their order, 0 for none."""
    values = hashes.str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    # The last two of all hashes share a number, so that the first one differs from none.
    return (values.clip(upper_bound=_LARGEST - 1) + 1).fill_null(0)


def number_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace the one text of `prefix_hashes` by a number for each level that some call has."""
    if HASHES not in frame.columns:
        return frame
    text = pl.col(HASHES).cast(pl.String).str
    longest = cast(int, frame.select(text.len_bytes().max()).item() or 0) // LEVEL_DIGITS
    numbers = [
        number_hashes(text.slice(level * LEVEL_DIGITS, LEVEL_DIGITS)).alias(name)
        for level, name in enumerate(LEVEL_COLUMNS[: max(longest, 1)])
    ]
    return frame.with_columns(numbers).drop(HASHES)


def number_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a number for each level that some row has; say whether each list of texts is valid."""
    lists = frame[HASHES]
    longest = cast(int, lists.list.len().max() or 0)
    names = LEVEL_COLUMNS[: max(longest, 1)]
    # Some rows at a time, for which no memory has to be given by the system, and in one piece then:
    # a frame whose columns have parts of different lengths is copied by many queries.
    slices = (lists[start : start + _ROWS] for start in range(0, max(frame.height, 1), _ROWS))
    numbered = pl.concat((_number_lists(each, names) for each in slices), rechunk=True)
    return frame.with_columns(numbered.get_columns())


def _number_lists(lists: pl.Series, names: Sequence[str]) -> pl.DataFrame:
    size = lists.list.len()
    is_valid = (size <= len(LEVELS)).alias(HASHES)
    # Of all levels at once: texts that follow each other are read several times as fast.
    texts = lists.explode(empty_as_null=False, keep_nulls=False)
    if not _are_plain(texts):
        texts = texts.set(~texts.str.contains(_HASH), None)
    numbers = _number_series(texts)
    size = size.fill_null(0)
    if numbers.min() == 0:
        rows = pl.int_range(len(lists), dtype=pl.UInt32, eager=True).repeat_by(size)
        wrong = rows.explode(empty_as_null=False).filter(numbers == 0)
        is_valid &= ~pl.repeat(False, len(lists), eager=True).scatter(wrong, True)
    if size.min() == size.max() == len(names):  # as most logs have
        of_levels = [numbers.gather_every(len(names), level) for level, _ in enumerate(names)]
    else:
        at = (size.cum_sum() - size).cast(pl.UInt32)
        of_levels = [
            numbers.gather((at + level).set(size <= level, None)).fill_null(0)
            for level, _ in enumerate(names)
        ]
    return pl.DataFrame([is_valid, *map(pl.Series.alias, of_levels, names)])


def _number_series(hashes: pl.Series) -> pl.Series:
    """Number hashes as `number_hashes` does, in a sixth less time."""
    values = hashes.str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    if values.max() == _LARGEST:
        values = values.clip(upper_bound=_LARGEST - 1)
    return (values + 1).fill_null(0)


def _are_plain(texts: pl.Series) -> bool:
    """Check that all texts are as long as a hash, without uppercase letters and signs.

    Ten times as fast as to look for a pattern in each.
    """
    bits = texts.cast(pl.Binary).bin.reinterpret(dtype=pl.UInt128, endianness="big")
    if bits.null_count() > texts.null_count():  # a text of another length
        return False
    first = cast("int | None", bits.min())
    return first is None or (
        first >= _FIRST and cast(int, bits.bitwise_and()) & _LOWERCASE == _LOWERCASE
    )
