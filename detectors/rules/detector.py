"""What a detector is: its identity, the kinds of finding it makes, its rule and its advice."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls

VERIFIED: Final = "VERIFIED"
ESTIMATED: Final = "ESTIMATED"
INFORMATIONAL: Final = "INFORMATIONAL"

# Engines differ in the last bit of a quantile and of a sum.
QUANTILE_MARGIN: Final = 1e-6
MARGIN: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding; the name is empty where the detector has but one."""

    name: str
    confidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The numbers that a finding's advice is made of.

    `route` is the quoted label, or says that there is none. Medians are over the flagged calls;
    `group_calls` counts all priced calls of the group. Rates are US dollars per million tokens for
    a short prompt at the time of the group's last call.
    """

    kind: str
    confidence: str
    route: str
    provider: str
    model: str
    sibling: str | None
    thresholds: Thresholds
    calls: int
    group_calls: int
    median_prompt_tokens: float
    median_completion_tokens: float
    median_declared_max_tokens: float
    largest_completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost_usd: Decimal
    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cache_read_usd_per_mtok: float
    cache_write_usd_per_mtok: float
    sibling_input_usd_per_mtok: float
    sibling_output_usd_per_mtok: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """`find` flags calls, each with the place of its kind in `kinds`; `advise` writes the fix."""

    id: str
    kinds: tuple[Kind, ...]
    find: Callable[[Calls, Thresholds], Calls]
    advise: Callable[[Facts], str]


def flag(calls: Calls, kind: nw.Expr | int, saving_usd: nw.Expr) -> Calls:
    """What every rule returns: which calls, of which group and kind, saving how much each."""
    return calls.select(
        "number",
        "group",
        (nw.lit(kind) if isinstance(kind, int) else kind).cast(nw.Int8).alias("kind"),
        "cost_usd",
        saving_usd.cast(nw.Float64).alias("saving_usd"),
    )
