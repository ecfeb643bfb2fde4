"""The columns of a finding's evidence, and how a call is written in them.

A detector lists its columns in its own file, from these or with labels of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from detectors.contract import Evidence, EvidenceColumn, Method
from detectors.wording.figures import number, usd
from detectors.wording.labels import shortened

TIME: Final = EvidenceColumn(field="ts", label="Time", format="time")
REQUEST: Final = EvidenceColumn(field="request_id", label="Request ID", format="text")
PROMPT: Final = EvidenceColumn(field="prompt_tokens", label="Prompt tokens", format="count")
COMPLETION: Final = EvidenceColumn(
    field="completion_tokens", label="Completion tokens", format="count"
)
CACHED: Final = EvidenceColumn(field="cached_tokens", label="Cached", format="count")
CACHE_WRITES: Final = EvidenceColumn(
    field="cache_write_tokens", label="Cache writes", format="count"
)
MAX_TOKENS: Final = EvidenceColumn(field="declared_max_tokens", label="max_tokens", format="limit")
NORM: Final = EvidenceColumn(field="norm_tokens", label="Usual prompt", format="count")
EXCESS: Final = EvidenceColumn(field="excess_tokens", label="Above usual", format="count")
CACHEABLE: Final = EvidenceColumn(field="prefix_tokens", label="Cacheable tokens", format="count")
PAUSE: Final = EvidenceColumn(field="pause_seconds", label="Since earlier call", format="seconds")
COST: Final = EvidenceColumn(field="cost_usd", label="Cost", format="usd")
SAVINGS: Final = EvidenceColumn(field="saving_usd", label="Potential savings", format="usd")

# Every count that a call is billed by, so that a reader can check its cost.
BILLED: Final = (PROMPT, COMPLETION, CACHED, CACHE_WRITES)
_LONGEST_ID: Final = 40
_EVERY_COLUMN: Final = (TIME, *BILLED, MAX_TOKENS, COST, SAVINGS)

_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    "time": str,
    "text": lambda label: shortened(label, _LONGEST_ID) or "–",
    "count": lambda count: number(round(count)),
    "seconds": lambda seconds: f"{seconds:,.1f} s" if seconds else "–",
    "limit": lambda limit: number(limit) if limit else "–",
    "usd": usd,
}


def evidence_columns(detector: str, methods: Iterable[Method]) -> tuple[EvidenceColumn, ...]:
    """Return the columns that the detector lists, and the request ID after the first.

    A report that lists none has every column.
    """
    listed = {method.detector: method.evidence for method in methods}
    first, *others = listed.get(detector) or _EVERY_COLUMN
    return (first, *(() if REQUEST in others else (REQUEST,)), *others)


def evidence_cell(call: Evidence, column: EvidenceColumn) -> str:
    return _FORMATS[column.format](getattr(call, column.field))
