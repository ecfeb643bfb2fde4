"""Stored files of calls in, fewer stored files out, each with the spend of its calls."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date
from io import BytesIO
from typing import BinaryIO

from detectors.contract import MergedCalls
from detectors.report.account.call_files import merge_files, read_calls, write_calls
from detectors.report.account.daily_spend import sum_spend
from detectors.report.account.imports import Terms

# A file, and its import if it is the frame of one.
Stored = tuple[BinaryIO, str | None]


def merge_stored(
    files: Sequence[Stored], terms: Terms, *, months_before: date, without: Collection[str] = ()
) -> Iterator[MergedCalls]:
    """Merge stored files as `merge_files` does, and sum the spend of each new file."""
    frames = [read_calls(file, import_id) for file, import_id in files]
    new = list(merge_files(frames, months_before=months_before, without=without))
    del frames
    calls = [each.frame.drop("import_id") for each in new]
    spend = sum_spend(calls, terms.prices, terms.list_prices)
    for merged, lines in zip(new, spend, strict=True):
        content = BytesIO()
        write_calls(merged.frame, content)
        yield MergedCalls(
            first_day=merged.first_day,
            last_day=merged.last_day,
            content=content.getvalue(),
            calls=merged.frame.height,
            duplicates=merged.duplicates,
            imports=len(merged.imports),
            spend=lines,
        )
