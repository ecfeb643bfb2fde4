"""One entry of the price book, and its rates at a given time."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from detectors.prices import model_data
from detectors.prices.agreed.terms import Terms
from detectors.prices.boundaries import Boundaries
from detectors.prices.lookup.targets import NO_TARGET
from detectors.prices.rates import Rates, find_rates

if TYPE_CHECKING:
    from detectors.prices.lookup.records import AnyModel


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The price book's entry for a provider and a model.

    `is_equivalent` means that the dollars are a list-price cost and not a bill: the provider is a
    flat-rate plan or not in the book. `is_own` means that the provider has its own entry and does
    not resell a model from another provider's entry. `target` is the model that these calls could
    try instead, and `target_kind` says why (module `targets`).
    """

    provider: str
    model: str
    info: "AnyModel"
    is_equivalent: bool
    is_own: bool = True
    target_kind: int = NO_TARGET
    target: "Listing | None" = None
    terms: Terms = Terms()

    def find_rates(
        self,
        at: datetime,
        prompt_tokens: int,
        tier: str = "",
        region: str = "",
        measured: Iterable[str] = (),
    ) -> Rates | None:
        """Return the rates at a given time, for a prompt length, a service tier and a region.

        They are None for a model without a rate per token, except for calls that count units
        in `measured` that the model is billed by.
        """
        listed = self._list(at, prompt_tokens, tier)
        if listed is None or not listed.prices(measured):
            return None
        if region:
            listed = listed.times(model_data.region_multiples(self.provider, self.model, region))
        base = self._list(at, 0, "")
        return listed if base is None else self.terms.negotiate(listed, base, at)

    def _list(self, at: datetime, prompt_tokens: int, tier: str) -> Rates | None:
        context = model_data.tier_context(tier)
        if context and self.is_own and self._has_variant(context, at):
            return find_rates(self.info.get_prices(at, context), prompt_tokens)
        standard = find_rates(self.info.get_prices(at), prompt_tokens)
        return standard and standard.times(model_data.tier_multiples(self.provider, tier))

    def _has_variant(self, context: Mapping[str, str], at: datetime) -> bool:
        """Check whether the book has rates for calls of this kind at that time."""
        return any(
            variant.when.items() <= context.items()
            and (variant.constraint is None or variant.constraint.active(at))
            for variant in self.info.price_variants or ()
        )

    def find_boundaries(self, tier: str = "") -> Boundaries:
        """Return where the rates of this listing or its target may change."""
        found = Boundaries.of(self.info) | self.terms.boundaries
        if tier:
            found |= Boundaries.of_variants(self.info)
        return found if self.target is None else found | self.target.find_boundaries(tier)

    @property
    def target_window(self) -> int | None:
        """Return the largest prompt and answer that the target takes; None if it is unknown."""
        own = self.info.context_window
        return own if self.target is None else self.target.info.context_window or own
