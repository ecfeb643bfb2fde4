"""Stored files of calls in, fewer stored files out, each with the spend of its calls."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from io import BytesIO
from typing import BinaryIO, cast

import polars as pl

from detectors.contract import DailySpend, MergedCalls, StoredImport
from detectors.report.account.call_files import (
    IMPORT,
    Deleted,
    find_repeated,
    merge_files,
    read_calls,
    write_calls,
)
from detectors.report.account.daily_spend import sum_spend
from detectors.report.account.imports import Terms

# A file, and its import if it is the frame of one.
Stored = tuple[BinaryIO, str | None]


def merge_stored(
    files: Sequence[Stored],
    terms: Terms,
    *,
    months_before: date,
    today: date,
    without: Collection[str] = (),
    deleted: Sequence[Deleted] = (),
) -> Iterator[MergedCalls]:
    """Merge stored files as `merge_files` does, and sum the spend of each new file."""
    frames = [read_calls(file, import_id) for file, import_id in files]
    merged = merge_files(
        frames, months_before=months_before, today=today, without=without, deleted=deleted
    )
    new = list(merged)
    del frames
    calls = [each.frame.drop("import_id") for each in new]
    spend = sum_spend(calls, terms.prices, terms.list_prices, zone=terms.zone)
    for file, lines in zip(new, spend, strict=True):
        content = BytesIO()
        write_calls(file.frame, content)
        yield MergedCalls(
            first_day=file.first_day,
            last_day=file.last_day,
            content=content.getvalue(),
            calls=file.frame.height,
            duplicates=file.duplicates,
            imports=len(file.imports),
            spend=lines,
            priced_with=terms.key,
            rates=digest_models(terms, lines),
        )


def find_repeated_calls(new: Sequence[Stored], others: Iterable[BinaryIO]) -> list[bool]:
    """Return for each of the other stored files whether it has a call of the new ones, too.

    Others are read only as far as needed: not at all if no new call has a request ID.
    """
    return find_repeated([read_calls(file, import_id) for file, import_id in new], others)


def read_import(content: bytes, terms: Terms) -> StoredImport:
    """Read the stored frame of an import, and sum the spend of its calls."""
    calls = pl.read_parquet(BytesIO(content))
    days = calls["ts"].dt.date()
    return StoredImport(
        calls=calls.height,
        first_day=cast(date | None, days.min()),
        last_day=cast(date | None, days.max()),
        spend=sum_spend([calls], terms.prices, terms.list_prices, zone=terms.zone)[0],
        priced_with=terms.key,
    )


def sum_stored(file: Stored, terms: Terms) -> Sequence[DailySpend]:
    """Sum the spend of the calls in a stored file at the prices of the terms."""
    calls = read_calls(file[0], file[1] or "")
    return sum_spend([calls.drop(IMPORT)], terms.prices, terms.list_prices, zone=terms.zone)[0]


def digest_models(terms: Terms, lines: Sequence[DailySpend]) -> str:
    """Digest the rates of the models in some spend on its days."""
    days = sorted(line.day for line in lines)
    names = {(line.provider, line.model) for line in lines}
    return terms.digest(names, days[0], days[-1]) if days else ""
