"""Takes the values of lines of one form apart, and writes the lines again from these values.

A line is split at its double quotes, as a row of a CSV whose delimiter is a double quote. Where the
names of keys and the texts are in it follows from the form. This is several times faster than to
parse JSON, and may be wrong: a line of another form gives other values. So every line is written
again, and must be equal byte for byte. Texts can't hold quotes, and numbers are written in one way
only, so a line that is equal has this form and these values, each key once and no other.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import polars as pl

from detectors.frames.uniform.form import Key, NoFormError

Separators = tuple[str, str]
# Between members and before a value: as compact JSON, and as Python writes it by default.
SEPARATORS: Final[Sequence[Separators]] = ((",", ":"), (", ", ": "))
_MOST_PLACES: Final = 16  # of one key
_AROUND_NUMBERS: Final = " :,{}"
_NUMBER: Final = r"^(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,15})?$"
_NOTHING: Final = pl.lit("")
# Columns beside the values, whose names are paths of keys.
_LINE: Final = "the line"
_IS_EQUAL: Final = "is equal"


class TakenColumns(NamedTuple):
    """The values of lines, and which of the lines have the form: the others have other values."""

    values: pl.DataFrame
    is_of_form: pl.Series


def take(text: bytes, keys: Sequence[Key], separators: Separators) -> TakenColumns:
    """Return the value of each path, and whether each object is there; null where it is absent."""
    # One query, so that neither the lines nor what is written again is ever there as a whole.
    columns: dict[str, pl.Expr] = {}
    most = max(_place(keys, {1}, separators, columns))
    names = [_field(number) for number in range(most + 1)]
    fields = pl.scan_csv(
        text,
        separator='"',
        quote_char=None,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        empty_string_is_null=False,
        missing_columns="insert",
        # A line with more fields than the form is cut off, and then isn't equal.
        extra_columns="ignore",
        truncate_ragged_lines=True,
    )
    both = [
        fields.select(value.alias(path) for path, value in columns.items()),
        pl.scan_lines(text, name=_LINE),
    ]
    is_equal = (_join(_write_object(keys, separators)) == pl.col(_LINE)).fill_null(value=False)
    compared = pl.concat(both, how="horizontal").with_columns(
        is_equal.alias(_IS_EQUAL), pl.col(_LINE).str.len_bytes()
    )
    values = compared.collect(engine="streaming")
    # No byte is outside the lines, each of which was compared.
    ends = values.height - (not text.endswith(b"\n"))
    if values[_LINE].sum() + ends != len(text):
        raise NoFormError
    return TakenColumns(values.drop(_LINE, _IS_EQUAL), values[_IS_EQUAL])


def _field(number: int) -> str:
    return f"column_{number + 1}"


def _place(
    keys: Sequence[Key], starts: set[int], separators: Separators, columns: dict[str, pl.Expr]
) -> set[int]:
    """Add the columns of the keys, of which the first is at one of the starts; return their ends.

    A key that is not in every line moves those after it.
    """
    colon = separators[1]
    for number, key in enumerate(keys):
        if len(starts) > _MOST_PLACES:
            raise NoFormError
        ends = {start + 2 for start in starts}
        if key.kind == "text":
            ends = {end + 2 for end in ends} | (ends if key.may_be_null else set())
            columns[key.path] = _find(key, starts, 2, colon)
        elif key.kind == "hashes":
            columns[key.path] = _find_hashes(key, starts, separators)
            found = {end + 2 * size for end in ends for size in key.sizes}
            ends = found | (ends if key.may_be_null else set())
        elif key.kind == "object":
            columns[key.path] = _find(key, starts, 0, colon + "{").is_not_null()
            inner = _place(key.keys, ends, separators, columns)
            ends = inner | (ends if key.may_be_null else set())
        elif key.kind != "null":
            digits = _find(key, starts, 1, colon)  # between a colon and a comma
            if all(other.may_be_absent for other in keys[number + 1 :]):  # or braces
                digits = digits.str.strip_chars(_AROUND_NUMBERS)
            else:  # half of the time that stripping takes
                digits = digits.str.head(-len(separators[0])).str.slice(len(colon))
            if key.kind == "count":
                columns[key.path] = digits.cast(pl.Int64, strict=False)
            else:  # as text, because a float can be written in several ways
                columns[key.path] = pl.when(digits.str.contains(_NUMBER)).then(digits)
        starts = ends | (starts if key.may_be_absent else set())
    return starts


def _find(key: Key, starts: Iterable[int], distance: int, colon: str) -> pl.Expr:
    """Return the field at this distance from the key's name; null in lines without the key."""
    first, *others = sorted(starts)
    if not (others or key.may_be_absent or key.may_be_null):
        return pl.col(_field(first + distance))
    found = []
    for start in (first, *others):
        is_there = pl.col(_field(start)) == key.name
        if key.may_be_null and distance != 1:
            is_there &= pl.col(_field(start + 1)) == colon
        found.append(pl.when(is_there).then(pl.col(_field(start + distance))))
    return pl.coalesce(found)


def _find_hashes(key: Key, starts: Iterable[int], separators: Separators) -> pl.Expr:
    """Return what is between the first and the last quote of the list; null without a list."""
    comma, colon = separators
    found = []
    for start in sorted(starts):
        is_there = pl.col(_field(start)) == key.name
        is_there &= pl.col(_field(start + 1)) == colon + "["
        pieces: Pieces = []
        has_more = is_there
        for fewer, size in pairwise((0, *key.sizes)):
            texts = pl.col([_field(start + 2 * place) for place in range(fewer + 1, size + 1)])
            more = pl.concat_str(texts, separator=f'"{comma}"')
            if fewer:
                has_more &= pl.col(_field(start + 2 * fewer + 1)) == comma
                more = pl.when(has_more).then(_join([f'"{comma}"', more])).otherwise(_NOTHING)
            pieces.append(more)
        found.append(pl.when(is_there).then(_join(pieces)))
    return pl.coalesce(found)


Pieces = list[str | pl.Expr]


def _write_object(keys: Sequence[Key], separators: Separators) -> Pieces:
    pieces: Pieces = ["{"]
    for number, key in enumerate(keys):
        start = (separators[0] if number else "") + json.dumps(key.name) + separators[1]
        value: Pieces = [pl.col(key.path)]
        if key.kind == "null":
            value = ["null"]
        elif key.kind == "object":
            value = _write_object(key.keys, separators)
        elif key.kind == "text":
            value = ['"', *value, '"']
        elif key.kind == "hashes":
            value = ['["', *value, '"]']
        column = pl.col(key.path) if key.kind != "null" else pl.lit(None)
        is_there = column if key.kind == "object" else column.is_not_null()
        if key.may_be_absent:
            pieces.append(pl.when(is_there).then(_join([start, *value])).otherwise(_NOTHING))
        elif key.may_be_null:
            null = pl.lit("null")
            pieces += [start, pl.when(is_there).then(_join(value)).otherwise(null)]
        else:
            pieces += [start, *value]
    return [*pieces, "}"]


def _join(pieces: Pieces) -> pl.Expr:
    """Join texts and columns; texts that follow each other are one, which is faster."""
    joined: Pieces = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return pl.concat_str([pl.lit(each) if isinstance(each, str) else each for each in joined])
