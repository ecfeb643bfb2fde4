"""The counts of rows whose names are no usage object's, as the one reader has them."""

from collections.abc import Iterable
from typing import Any

from detectors.formats.adapters.rows import Row, parsed
from detectors.formats.json_logs.usage.reader import Reading, count_of, read_usage

# The calls of the usage of one answer: none where it has no counts.
Usages = list[Reading]


def plain_counts(prompt: Any, completion: Any) -> Usages:
    return read_usage({"prompt_tokens": prompt, "completion_tokens": completion})


def read_usages(*usages: Any, **context: Any) -> Usages:
    """Return the calls of the first of these objects, or texts of objects, that has counts."""
    return next(filter(None, (read_usage(parsed(usage), **context) for usage in usages)), [])


def token_members(row: Row, prefix: str = "", *, others: Iterable[str] = ()) -> dict[str, Any]:
    kept = {*others, *(name for name in row.names() if "token" in name and name.startswith(prefix))}
    return {name.removeprefix(prefix): value for name, value in row.plain(kept).items()}
