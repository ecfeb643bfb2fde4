"""One entry of the price book, and its rates at a given time."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any, Final

import msgspec
from genai_prices.types import ModelInfo

from detectors.prices import units
from detectors.prices.agreed.terms import AgreedTerms
from detectors.prices.boundaries import Boundaries
from detectors.prices.lookup import published
from detectors.prices.lookup.targets import NO_TARGET
from detectors.prices.rates import Rates, find_rates, tier_starts

# A host that sells by the model provider's list may add a surcharge, the same to all rates.
_FACTORS: Final = (0.9, 1.3)
_FACTOR_TOLERANCE: Final = 0.01


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The price book's entry for a provider and a model.

    `is_equivalent` means that the dollars are a list-price cost and not a bill: the provider is a
    flat-rate plan or not in the book. `is_own` means that the provider has its own entry and does
    not resell a model from another provider's entry. `target` is the model that these calls could
    try instead, and `target_kind` says why (module `targets`). `original` is the model provider's
    own entry, if the host follows its prices.
    """

    provider: str
    model: str
    info: ModelInfo
    is_equivalent: bool
    is_own: bool = True
    target_kind: int = NO_TARGET
    target: "Listing | None" = None
    terms: AgreedTerms = AgreedTerms()
    original: "Listing | None" = None

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
        listed = self._standard(at, prompt_tokens)
        if listed is not None and tier:
            listed = self._find_tier(listed, at, prompt_tokens, tier) or listed
        if listed is None or not listed.prices(measured):
            return None
        if region:
            listed = listed.times(published.find_region(self.provider, self.model, region) or {})
        base = self._standard(at, 0)
        return listed if base is None else self.terms.negotiate(listed, base, at)

    def lacks_tier(self, at: datetime, tier: str) -> bool:
        """Check whether nothing is known of the price of a tier, so that it costs as standard."""
        standard = self._standard(at, 0) if tier else None
        return standard is not None and self._find_tier(standard, at, 0, tier) is None

    def lacks(self, unit: units.Unit, rates: Rates) -> bool:
        """Check whether calls that count this unit have no rate for it, and should have one."""
        key = unit.usage_key
        if rates.has(key) or not units.is_apart(key):
            return False
        if units.is_measure(key) and any(map(units.is_measure, rates.own)):
            return False
        return not published.is_billed_with_others(self.provider, self.model, key)

    def _standard(self, at: datetime, prompt_tokens: int) -> Rates | None:
        """Return the rates of the standard tier, the book's and those that it lacks."""
        prices = self.info.get_prices(at)
        listed = find_rates(prices, prompt_tokens)
        if listed is None:
            return None
        has_lengths = bool(tier_starts(prices))
        if self.original is not None:
            listed = self._follow(self.original, listed, at, 0 if has_lengths else prompt_tokens)
        return published.complete(
            listed,
            self.provider,
            self.model,
            at,
            prompt_tokens=prompt_tokens,
            has_lengths=has_lengths,
        )

    def _follow(
        self, original: "Listing", listed: Rates, at: datetime, prompt_tokens: int
    ) -> Rates:
        """Add rates of long prompts and of modalities as the model provider's are."""
        follows, short = published.find_follows(self.provider), original._standard(at, 0)
        long = original._standard(at, prompt_tokens)
        if follows is None or short is None or long is None:
            return listed
        # By what a host multiplies the model provider's rates, unless it has a list of its own.
        keys = [key for key in (units.INPUT, units.OUTPUT) if short.own.get(key)]
        factors = [listed.own.get(key, 0.0) / short.own[key] for key in keys]
        if not factors or max(factors) - min(factors) > _FACTOR_TOLERANCE:
            return listed
        factor = factors[0]
        if not _FACTORS[0] <= factor <= _FACTORS[1]:
            return listed
        if follows.long_prompts:
            listed = listed.in_proportion(long, short)
        if follows.modalities:
            more = {key: rate * factor for key, rate in long.own.items() if units.has_modality(key)}
            listed = Rates(more | dict(listed.own))
        return listed

    def _find_tier(
        self, standard: Rates, at: datetime, prompt_tokens: int, tier: str
    ) -> Rates | None:
        """Return the rates of a tier by what is known of it; the order is in service_tiers.toml."""
        context = published.tier_context(tier)
        if self.is_own and any(
            variant.constraint is None or variant.constraint.active(at)
            for variant in self._variants(context)
        ):
            return self._as_variant(standard, context, at, prompt_tokens)
        rule = published.find_tier_rule(self.provider, self.model, tier, at)
        # When the book's rates for calls of this kind begin.
        variants = self._variants(context) if self.is_own else ()
        starts = (getattr(each.constraint, "start_date", None) for each in variants)
        day = min(filter(None, starts), default=None)
        first = day and datetime.combine(day, time(), UTC)
        follows = published.find_follows(self.provider)
        if first is not None and not (rule and rule.is_named):
            return self._as_variant(standard, context, first, prompt_tokens)
        if self.original and follows and tier in follows.tiers and not (rule and rule.is_named):
            base = self.original._standard(at, prompt_tokens)
            special = base and self.original._find_tier(base, at, prompt_tokens, tier)
            if base and special:
                return standard.in_proportion(special, base)
        return None if rule is None else standard.times(rule.times)

    def _as_variant(
        self, standard: Rates, context: Mapping[str, str], at: datetime, prompt_tokens: int
    ) -> Rates | None:
        """Return the book's rates for calls of this kind, at a time when it has some.

        The rates that only we have, and those of another time, move in proportion.
        """
        special = find_rates(self.info.get_prices(at, context), prompt_tokens)
        base = find_rates(self.info.get_prices(at), prompt_tokens)
        if special is None or base is None:
            return special
        return Rates({**special.own, **standard.in_proportion(special, base).own})

    def _variants(self, context: Mapping[str, str]) -> Iterator[Any]:
        for variant in self.info.price_variants or ():
            if variant.when.items() <= context.items():
                yield variant

    def find_boundaries(self, tier: str = "") -> Boundaries:
        found = Boundaries.of(self.info) | self.terms.boundaries
        found |= published.find_boundaries(self.provider, self.model, tier)
        if tier:
            found |= Boundaries.of_variants(self.info)
        if self.original is not None:
            found |= self.original.find_boundaries(tier)
        return found if self.target is None else found | self.target.find_boundaries(tier)

    @property
    def target_window(self) -> int | None:
        own = self.info.context_window
        return own if self.target is None else self.target.info.context_window or own
