"""The price book: which listing a (provider, model) label means, and its rates at a moment.

Everything is asked of genai-prices' own data and matching, so that what an audit says agrees with
`genai_prices.calc_price`. Pricing whole frames is in `table`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

import genai_prices
from genai_prices.data_snapshot import DataSnapshot, find_provider_by_id, get_snapshot
from genai_prices.types import ModelInfo

from detectors.contract import LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices import vendors
from detectors.prices.agreements import read_discounts, read_overrides
from detectors.prices.boundaries import Boundaries
from detectors.prices.private import private_model
from detectors.prices.rates import Rates, find_rates
from detectors.prices.terms import CACHE_RATES, Discount, Override, Terms


@dataclass(frozen=True, eq=False, slots=True)
class Listing:
    """What the book has for one pair of labels.

    `is_equivalent` says that the dollars are the vendor's list price for what was not billed so:
    the label is a flat-rate plan or a provider that the book does not know. `is_own` says that the
    provider has an entry of its own, and does not only sell what another vendor has an entry for.
    """

    provider: str
    model: str
    info: ModelInfo
    is_equivalent: bool
    is_own: bool = True
    sibling: "Listing | None" = None
    terms: Terms = Terms()

    def find_rates(self, at: datetime, prompt_tokens: int, tier: str = "") -> Rates | None:
        """The rates at a moment, for a prompt of this length, at a service tier."""
        listed = self._list(at, prompt_tokens, tier)
        base = self._list(at, 0, "")
        if listed is None or base is None:
            return listed
        return self.terms.negotiate(listed, base, at)

    def _list(self, at: datetime, prompt_tokens: int, tier: str) -> Rates | None:
        context = vendors.tier_context(tier)
        if context and self.is_own and self._has_variant(context, at):
            return find_rates(self.info.get_prices(at, context), prompt_tokens)
        standard = find_rates(self.info.get_prices(at), prompt_tokens)
        return standard and standard.times(vendors.tier_multiples(self.provider, tier))

    def _has_variant(self, context: Mapping[str, str], at: datetime) -> bool:
        """Whether the book has rates in force for calls of this kind."""
        return any(
            variant.when.items() <= context.items()
            and (variant.constraint is None or variant.constraint.active(at))
            for variant in self.info.price_variants or ()
        )

    def find_boundaries(self, tier: str = "") -> Boundaries:
        """Where this listing's rates, or its sibling's, may change."""
        found = Boundaries.of(self.info) | self.terms.boundaries
        if tier:
            found |= Boundaries.of_variants(self.info)
        return found if self.sibling is None else found | self.sibling.find_boundaries(tier)


class PriceBook:
    """Rates of every model that genai-prices knows, as of its installed version.

    Rates that were negotiated take the place of the list prices: of the calls, of the cheaper
    models that findings suggest, and in every dollar of the report, which names them.

    Parameters
    ----------
    snapshot : genai_prices.data_snapshot.DataSnapshot, optional
        Another set of prices than the installed one, for instance an updated or a private one.
    version : str, optional
        How the report names that set.
    discounts : mapping of str to share, optional
        By provider of the book, the share taken off every rate of it: ``0.12`` for 12%, or
        ``{"share": 0.12, "from": "2026-01-01", "until": "2026-12-31"}``, or a list of such.
    overrides : mapping of (str, str) to rates, optional
        By provider and model, the rates agreed on, in US dollars per million tokens:
        ``input_mtok``, ``cache_read_mtok``, ``cache_write_mtok``, ``output_mtok``, and per thousand
        requests ``requests_kcount``; ``from`` and ``until`` as above, or a list of such. They
        replace the discount; cache rates that are not given move in proportion to input. They are
        stated for a short prompt at the standard tier: where the
        list price is another for a long prompt or for `batch`, the agreed one is in proportion. A
        model that the book does not know needs at least input and output, and is then priced.

    Dates are days in UTC, the first and the last included; without them a rate always holds.

    Raises
    ------
    PriceTermsError
        A discount or an override is not of this form, names what the book does not know, or two
        of them hold on the same day.

    Examples
    --------
    >>> from detectors import PriceBook
    >>> book = PriceBook(
    ...     discounts={"openai": 0.12},
    ...     overrides={("openai", "gpt-5.5"): {"input_mtok": 4, "output_mtok": 24}},
    ... )
    >>> book.negotiated[0]
    'openai: 12% off'
    >>> print(book.negotiated[1].replace("; ", "\\n"))
    openai gpt-5.5: input_mtok $4.00, output_mtok $24.00
    cache rates scaled in proportion to input
    """

    source = "genai-prices"

    def __init__(
        self,
        snapshot: DataSnapshot | None = None,
        *,
        version: str = genai_prices.__version__,
        discounts: Mapping[str, Any] | None = None,
        overrides: Mapping[tuple[str, str], Any] | None = None,
    ) -> None:
        self.version = version
        self._snapshot = snapshot or get_snapshot()
        self._listings: dict[tuple[str, str], Listing | None] = {}
        self._discounts = read_discounts(discounts or {})
        self._overrides = read_overrides(overrides or {})
        self._check_terms()

    @property
    def negotiated(self) -> tuple[str, ...]:
        """The rates that are not the list's, in words; the report names them."""
        overrides = (f"{override}{self._implied(override)}" for override in self._overrides)
        return (*map(str, self._discounts), *overrides)

    def _implied(self, override: Override) -> str:
        """Describe the cache rates that an override of the input rate moves with it."""
        listing = self._find_listed(override.provider, override.model)
        latest = LAST_INSTANT - timedelta(days=1)
        listed = None if listing is None else listing.find_rates(latest, 0)
        if listed is None or "input" not in override.usd:
            return ""
        implied = CACHE_RATES & listed.own().keys() - override.usd.keys()
        return "; cache rates scaled in proportion to input" if implied else ""

    def _check_terms(self) -> None:
        for discount in self._discounts:
            if find_provider_by_id(self._snapshot.providers, discount.provider) is None:
                raise PriceTermsError(f"{discount}: {self._unknown(discount.provider)}")
        for override in self._overrides:
            if self._find_listed(override.provider, override.model) or override.is_whole:
                continue
            raise PriceTermsError(
                f"{override}: the price book knows no such model there; a model of your own needs "
                "input_mtok and output_mtok"
            )

    def _unknown(self, provider: str) -> str:
        near = get_close_matches(provider, [one.id for one in self._snapshot.providers], n=1)
        meant = f"; perhaps {near[0]} is meant" if near else ""
        return f"the price book knows no such provider{meant}"

    def find_listing(self, provider: str, model: str) -> Listing | None:
        """What the labels of a call mean; none for a model that the book does not know there."""
        key = (provider, model)
        if key not in self._listings:
            self._listings[key] = self._find_listing(provider, model)
        return self._listings[key]

    def _find_listing(self, provider: str, model: str) -> Listing | None:
        listing = self._find_listed(provider, model)
        if listing is None:
            return self._find_private(provider, model)
        sibling = listing.sibling and self._agree(listing.sibling, provider)
        return replace(self._agree(listing, provider), sibling=sibling)

    def _find_private(self, provider: str, model: str) -> Listing | None:
        """A model that only overrides tell of."""
        concerned = [
            one
            for one in self._overrides
            if (one.provider, one.model) == (provider.lower(), model.lower()) and one.is_whole
        ]
        if not concerned:
            return None
        info = private_model(model, concerned)
        return Listing(provider=provider, model=model, info=info, is_equivalent=False)

    def _agree(self, listing: Listing, label: str) -> Listing:
        """The listing at the rates agreed on with its provider, or for this very label."""
        discounts = tuple(one for one in self._discounts if self._is_of(one, listing))
        overrides = tuple(
            one
            for one in self._overrides
            if (listed := self._find_listed(one.provider, one.model))
            and listed.info is listing.info
            and (self._is_of(one, listing) or one.provider == label.lower())
        )
        return replace(listing, terms=Terms(discounts, overrides))

    def _is_of(self, one: Discount | Override, listing: Listing) -> bool:
        known = find_provider_by_id(self._snapshot.providers, one.provider)
        return known is not None and known.id == listing.provider

    def _find_listed(self, provider: str, model: str) -> Listing | None:
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
            is_own=any(info is one for one in found.models),
            sibling=sibling or None,
        )
