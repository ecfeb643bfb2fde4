"""The price book: which listing a (provider, model) label means, and its rates at a moment.

Everything is asked of genai-prices' own data and matching, so that what an audit says agrees with
`genai_prices.calc_price`. Pricing whole frames is in `table`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time

import genai_prices
from genai_prices.data_snapshot import DataSnapshot, find_provider_by_id, get_snapshot
from genai_prices.types import ConditionalPrice, ModelInfo, StartDateConstraint

from detectors.prices import vendors
from detectors.prices.rates import Rates, find_rates, tier_starts


@dataclass(frozen=True, eq=False, slots=True)
class Listing:
    """What the book has for one pair of labels.

    `is_equivalent` says that the dollars are the vendor's list price for what was not billed so:
    the label is a flat-rate plan or a provider that the book does not know.
    """

    provider: str
    model: str
    info: ModelInfo
    is_equivalent: bool
    sibling: "Listing | None" = None

    def find_rates(self, at: datetime, prompt_tokens: int) -> Rates | None:
        return find_rates(self.info.get_prices(at), prompt_tokens)

    @property
    def boundaries(self) -> "Boundaries":
        """Where this listing's rates, or its sibling's, may change."""
        own = Boundaries.of(self.info)
        return own if self.sibling is None else own | Boundaries.of(self.sibling.info)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The moments, the UTC seconds of the day and the prompt lengths at which rates change.

    A moment and a second belong to what comes after them, a length to what comes before.
    """

    moments: frozenset[datetime] = field(default_factory=frozenset)
    day_seconds: frozenset[int] = field(default_factory=frozenset)
    prompt_tokens: frozenset[int] = field(default_factory=frozenset)

    def __or__(self, other: "Boundaries") -> "Boundaries":
        return Boundaries(
            self.moments | other.moments,
            self.day_seconds | other.day_seconds,
            self.prompt_tokens | other.prompt_tokens,
        )

    def within(self, first: datetime, last: datetime, longest: int) -> "Boundaries":
        """Those that fall between two calls and below the longest prompt."""
        return Boundaries(
            frozenset(moment for moment in self.moments if first < moment <= last),
            self.day_seconds - {0},
            frozenset(start for start in self.prompt_tokens if start < longest),
        )

    @classmethod
    def of(cls, info: ModelInfo) -> "Boundaries":
        conditional = _conditional_prices(info)
        moments: set[datetime] = set()
        day_seconds: set[int] = set()
        for constraint in (price.constraint for price in conditional if price.constraint):
            if isinstance(constraint, StartDateConstraint):
                moments.add(datetime.combine(constraint.start_date, time(), UTC))
            else:
                day_seconds |= {
                    _utc_second(constraint.start_time),
                    _utc_second(constraint.end_time),
                }
        lengths = {start for price in conditional for start in tier_starts(price.prices)}
        return cls(frozenset(moments), frozenset(day_seconds), frozenset(lengths))


class PriceBook:
    """Rates of every model that genai-prices knows, as of its installed version.

    Parameters
    ----------
    snapshot
        Another set of prices than the installed one, for instance an updated or a private one.
    version
        How the report names that set.
    """

    source = "genai-prices"

    def __init__(
        self, snapshot: DataSnapshot | None = None, *, version: str = genai_prices.__version__
    ) -> None:
        self.version = version
        self._snapshot = snapshot or get_snapshot()
        self._listings: dict[tuple[str, str], Listing | None] = {}

    def find_listing(self, provider: str, model: str) -> Listing | None:
        """What the labels of a call mean; none for a model that the book does not know there."""
        key = (provider, model)
        if key not in self._listings:
            self._listings[key] = self._find_listing(provider, model)
        return self._listings[key]

    def _find_listing(self, provider: str, model: str) -> Listing | None:
        is_known = find_provider_by_id(self._snapshot.providers, provider) is not None
        is_equivalent = vendors.is_flat_rate(provider) or not is_known
        # A plan's label may be a provider of the book too; its vendor's list price goes first.
        for label in self._labels(provider, is_known=is_known):
            listing = self._look_up(label, model, is_equivalent=is_equivalent)
            if listing is not None:
                return listing
        return None

    @staticmethod
    def _labels(provider: str, *, is_known: bool) -> Iterable[str | None]:
        """The provider to look in; none stands for the vendor that the model's name tells of."""
        if not is_known:
            # litellm is a gateway: the book reads the vendor out of the model's own name.
            return [provider] if provider == "litellm" else [None]
        return [None, provider] if vendors.is_flat_rate(provider) else [provider]

    def _look_up(self, provider: str | None, model: str, *, is_equivalent: bool) -> Listing | None:
        try:
            found, info = self._snapshot.find_provider_model(model, None, provider, None)
        except LookupError:
            return None
        name = vendors.find_sibling(found.id, model)
        sibling = name and self._look_up(found.id, name, is_equivalent=is_equivalent)
        return Listing(
            provider=found.id,
            model=model,
            info=info,
            is_equivalent=is_equivalent,
            sibling=sibling or None,
        )


def _conditional_prices(info: ModelInfo) -> list[ConditionalPrice]:
    if isinstance(info.prices, list):
        return info.prices
    return [ConditionalPrice(prices=info.prices)]


def _utc_second(clock: time) -> int:
    """The second of the UTC day; the book's times without a zone are UTC."""
    moment = datetime.combine(datetime(1970, 1, 1, tzinfo=UTC), clock, clock.tzinfo or UTC)
    moment = moment.astimezone(UTC)
    return moment.hour * 3600 + moment.minute * 60 + moment.second
