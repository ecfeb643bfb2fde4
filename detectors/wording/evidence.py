"""The columns of a finding's evidence, and how a call is written in them.

A detector lists its columns in its own file, from these or with labels of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from detectors.contract import Evidence, EvidenceColumn, Method
from detectors.wording.figures import number, usd

TIME: Final = EvidenceColumn(field="ts", label="Time", format="time")
PROMPT: Final = EvidenceColumn(field="prompt_tokens", label="Prompt tokens", format="count")
COMPLETION: Final = EvidenceColumn(
    field="completion_tokens", label="Completion tokens", format="count"
)
CACHED: Final = EvidenceColumn(field="cached_tokens", label="Cached", format="count")
CACHE_WRITES: Final = EvidenceColumn(
    field="cache_write_tokens", label="Cache writes", format="count"
)
MAX_TOKENS: Final = EvidenceColumn(field="declared_max_tokens", label="max_tokens", format="limit")
COST: Final = EvidenceColumn(field="cost_usd", label="Cost", format="usd")
SAVINGS: Final = EvidenceColumn(field="saving_usd", label="Potential savings", format="usd")

# Every count that a call is billed by, so that a reader can check its cost.
BILLED: Final = (PROMPT, COMPLETION, CACHED, CACHE_WRITES)
_EVERY_COLUMN: Final = (TIME, *BILLED, MAX_TOKENS, COST, SAVINGS)

_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    "time": str,
    "count": number,
    "limit": lambda limit: number(limit) if limit else "–",
    "usd": usd,
}


def evidence_columns(detector: str, methods: Iterable[Method]) -> tuple[EvidenceColumn, ...]:
    """Return the columns that the detector lists; every column in a report that lists none."""
    listed = {method.detector: method.evidence for method in methods}
    return listed.get(detector) or _EVERY_COLUMN


def evidence_cell(call: Evidence, column: EvidenceColumn) -> str:
    """Write one value of a call as its column's format says."""
    return _FORMATS[column.format](getattr(call, column.field))
