"""The type of a detector: ID, kinds of findings, thresholds, rule, advice and formula."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import msgspec
import polars as pl

from detectors.contract import EvidenceColumn, Thresholds
from detectors.engine import Calls
from detectors.wording.figures import counted, fine_usd, percent, rate

VERIFIED: Final = "VERIFIED"
ESTIMATED: Final = "ESTIMATED"
CONDITIONAL: Final = "CONDITIONAL"
INFORMATIONAL: Final = "INFORMATIONAL"

# What `flag` adds to each call beside its savings; 0 where a detector has no use for it.
BASIS: Final = ("norm_tokens", "prefix_tokens", "pause_seconds", "basis")

# The last bit of a quantile and of a sum depends on the order of rows.
QUANTILE_MARGIN: Final = 1e-6
MARGIN: Final = 1e-9


class Kind(msgspec.Struct, frozen=True):
    """A kind of finding; the name is empty if the detector has only one kind.

    Detectors may have kinds of equal name and different confidence. The calls of a kind that is not
    reported are no finding: their `high_usd` belongs to the upper end of the finding of the same
    name in their group, or to the sum of its confidence where there is none.
    """

    name: str
    confidence: str
    is_reported: bool = True


class FlaggedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one finding, for its advice and its formula.

    `route` is the quoted label, or a description if there is none. Medians are over the flagged
    calls of the window, whose savings are `saving_usd`; `group_calls` counts all priced calls of
    the group in the window. Rates are US dollars per million tokens for a short prompt at the time
    of the group's last call. Norms and bases are those that the rule gave to `flag`.
    """

    kind: str
    confidence: str
    route: str
    provider: str
    model: str
    cheaper_model: str | None
    thresholds: Thresholds
    calls: int
    group_calls: int
    median_prompt_tokens: float
    median_completion_tokens: float
    median_declared_max_tokens: float
    largest_completion_tokens: int
    median_norm_tokens: float
    median_prefix_tokens: float
    median_pause_seconds: float
    sharing_calls: float
    median_shared_tokens: float
    median_sharing_prompt_tokens: float
    total_prefix_tokens: float
    smallest_basis: float
    largest_basis: float
    total_basis: float
    cached_tokens: int
    cache_write_tokens: int
    cost_usd: Decimal
    saving_usd: Decimal
    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cache_read_usd_per_mtok: float
    cache_write_usd_per_mtok: float
    cache_write_1h_usd_per_mtok: float
    cheaper_input_usd_per_mtok: float
    cheaper_output_usd_per_mtok: float

    @property
    def counted(self) -> str:
        return counted(self.calls, "call")

    @property
    def calls_of_group(self) -> str:
        """Write how many calls of the group are flagged: 36 of its 142 calls."""
        if self.calls == self.group_calls > 1:
            return f"all {self.calls:,} of its calls"
        return f"{self.calls:,} of its {counted(self.group_calls, 'call')}"

    @property
    def shared_part(self) -> str:
        """Write how much of a prompt is repeated: about 11,600 of 14,000 tokens.

        These are medians over the calls that repeat something.
        """
        shared = _about(self.median_shared_tokens)
        return f"about {shared} of {_about(self.median_sharing_prompt_tokens)} tokens"

    @property
    def cost(self) -> str:
        return fine_usd(self.cost_usd)

    @property
    def saving(self) -> str:
        return fine_usd(self.saving_usd)

    def share(self, threshold: str) -> str:
        """Write a threshold that is a share as a percentage."""
        return percent(getattr(self.thresholds, threshold) * 100)


def _about(tokens: float) -> str:
    """Write a number with three digits that count."""
    return f"{float(f'{tokens:.3g}'):,.0f}"


def per_mtok(usd_per_mtok: float) -> str:
    """Write a rate or a difference of rates."""
    return f"{rate(usd_per_mtok)} per million"


class Facts(msgspec.Struct, frozen=True):
    """What a detector must know beside the calls of a group.

    `norms` has the usual prompt length of each bin of answers, in all calls of the audit.
    """

    thresholds: Thresholds
    norms: pl.DataFrame


class Detector(msgspec.Struct, frozen=True, kw_only=True):
    """`find` flags calls, each with the index of its kind in `kinds`; `advise` writes the fix.

    `formula` writes how the observed savings add up; it is not called for informational findings.
    `thresholds` are the detector's own numbers with their defaults, `evidence` the columns of its
    flagged calls. `code` writes the fix as code, or nothing. The display name and the definition
    are the docstring of the module.
    """

    id: str
    kinds: tuple[Kind, ...]
    thresholds: Mapping[str, int | float | tuple[int, ...]]
    find: Callable[[Calls, Facts], Calls]
    advise: Callable[[FlaggedCalls], str]
    formula: Callable[[FlaggedCalls], str]
    evidence: tuple[EvidenceColumn, ...]
    suggests_cheaper_model: bool = False
    code: Callable[[FlaggedCalls], str] | None = None


def flag(calls: Calls, kind: pl.Expr | int, saving_usd: pl.Expr, **others: pl.Expr) -> Calls:
    """Return what every rule returns: each call with its group, kind and potential savings.

    The calls must still have `at_us`, `in_window` and `cost_usd`.
    `others` are `low_usd` and `high_usd`, which are the savings themselves unless given, and the
    columns of `BASIS`: the numbers beside counts and rates that the savings were calculated from.
    """
    defaults = dict.fromkeys(("low_usd", "high_usd"), saving_usd)
    defaults |= dict.fromkeys(BASIS, pl.lit(0.0))
    return calls.select(
        "number",
        "group",
        "at_us",
        "in_window",
        (pl.lit(kind) if isinstance(kind, int) else kind).cast(pl.Int8).alias("kind"),
        "cost_usd",
        saving_usd.cast(pl.Float64).alias("saving_usd"),
        *[
            others.get(name, default).cast(pl.Float64).alias(name)
            for name, default in defaults.items()
        ],
    )
