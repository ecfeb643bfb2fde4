"""The price book: the listing of a (provider, model) pair, and its rates at a given time.

Uses genai-prices' own data and matching, so that costs agree with `genai_prices.calc_price`. Module
`table` prices whole frames.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

import genai_prices
from genai_prices.data_snapshot import DataSnapshot, find_provider_by_id, get_snapshot

from detectors.contract import LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices import model_data, units
from detectors.prices.agreed.agreements import read_discounts, read_overrides
from detectors.prices.agreed.private import private_model
from detectors.prices.agreed.terms import Discount, Override, Terms, cache_rates
from detectors.prices.listing import Listing
from detectors.prices.lookup.targets import NO_TARGET, find_target, is_same_model, names_at_host


class PriceBook:
    """The rates of every model in the installed version of genai-prices.

    Negotiated rates replace list prices everywhere: for the calls, for the cheaper models that
    findings suggest, and in every dollar figure. The report lists them.

    Parameters
    ----------
    snapshot : genai_prices.data_snapshot.DataSnapshot, optional
        Other prices than the installed ones, such as an update or your own.
    version : str, optional
        The name of these prices in the report.
    discounts : mapping of str to share, optional
        By provider, the share off all its rates: ``0.12`` for 12%, or
        ``{"share": 0.12, "from": "2026-01-01", "until": "2026-12-31"}``, or a list of these.
    overrides : mapping of (str, str) to rates, optional
        By provider and model, the negotiated rates in US dollars per million tokens:
        ``input_mtok``, ``cache_read_mtok``, ``cache_write_mtok``, ``output_mtok``, and per thousand
        requests ``requests_kcount``; ``from`` and ``until`` as above, or a list of these. They
        replace the discount. Cache rates that are not given move in proportion to input. Rates are
        for a short prompt at the standard tier; for a long prompt or `batch` they move in
        proportion to the list price. A model that is not in the book needs at least input and
        output.

    Dates are days in UTC, first and last included; without dates a rate always applies.

    Raises
    ------
    PriceTermsError
        A discount or an override has another form, an unknown provider or model, or two of them
        apply on the same day.

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
        """Return the negotiated rates as text, for the report."""
        overrides = (f"{override}{self._implied(override)}" for override in self._overrides)
        return (*map(str, self._discounts), *overrides)

    def _implied(self, override: Override) -> str:
        """Describe the cache rates that an override of the input rate moves with it."""
        listing = self._find_listed(override.provider, override.model)
        latest = LAST_INSTANT - timedelta(days=1)
        listed = None if listing is None else listing.find_rates(latest, 0)
        if listed is None or units.INPUT not in override.usd:
            return ""
        implied = cache_rates(listed.own) - override.usd.keys()
        return "; cache rates scaled in proportion to input" if implied else ""

    def _check_terms(self) -> None:
        for discount in self._discounts:
            if find_provider_by_id(self._snapshot.providers, discount.provider) is None:
                raise PriceTermsError(f"{discount}: {self._unknown(discount.provider)}")
        for override in self._overrides:
            if self._find_listed(override.provider, override.model) or override.is_whole:
                continue
            raise PriceTermsError(
                f"{override}: this model is not in the price book; a model of your own needs "
                "input_mtok and output_mtok"
            )

    def _unknown(self, provider: str) -> str:
        near = get_close_matches(provider, [known.id for known in self._snapshot.providers], n=1)
        suggestion = f"; did you mean {near[0]}?" if near else ""
        return f"this provider is not in the price book{suggestion}"

    def find_listing(self, provider: str, model: str) -> Listing | None:
        """Return the listing for a call's provider and model; None if it is not in the book."""
        key = (provider, model)
        if key not in self._listings:
            self._listings[key] = self._find_listing(provider, model)
        return self._listings[key]

    def _find_listing(self, provider: str, model: str) -> Listing | None:
        listing = self._find_listed(provider, model)
        if listing is None:
            return self._find_private(provider, model)
        cheaper = listing.cheaper and self._with_terms(listing.cheaper, provider)
        target = listing.target and self._with_terms(listing.target, provider)
        return replace(self._with_terms(listing, provider), cheaper=cheaper, target=target)

    def _find_private(self, provider: str, model: str) -> Listing | None:
        """Return the listing of a model that is in the overrides only."""
        names = (provider.lower(), model.lower())
        overrides = [
            override
            for override in self._overrides
            if (override.provider, override.model) == names and override.is_whole
        ]
        if not overrides:
            return None
        info = private_model(model, overrides)
        return Listing(provider=provider, model=model, info=info, is_equivalent=False)

    def _with_terms(self, listing: Listing, label: str) -> Listing:
        """Add the terms negotiated with the listing's provider, or for this label."""
        discounts = tuple(each for each in self._discounts if self._is_of(each, listing))
        overrides = tuple(
            each
            for each in self._overrides
            if (listed := self._find_listed(each.provider, each.model))
            and listed.info is listing.info
            and (self._is_of(each, listing) or each.provider == label.lower())
        )
        return replace(listing, terms=Terms(discounts, overrides))

    def _is_of(self, term: Discount | Override, listing: Listing) -> bool:
        known = find_provider_by_id(self._snapshot.providers, term.provider)
        return known is not None and known.id == listing.provider

    def _find_listed(self, provider: str, model: str) -> Listing | None:
        is_known = find_provider_by_id(self._snapshot.providers, provider) is not None
        is_equivalent = model_data.is_flat_rate(provider) or not is_known
        # A plan's label may be a provider of the book too; the model provider's price comes first.
        for label in self._labels(provider, is_known=is_known):
            listing = self._look_up(label, model, is_equivalent=is_equivalent)
            if listing is not None:
                return listing
        return None

    @staticmethod
    def _labels(provider: str, *, is_known: bool) -> Iterable[str | None]:
        """Return the providers to search; None means the provider that the model's name implies."""
        if not is_known:
            # litellm is a gateway: the book takes the provider from the model's name.
            return [provider] if provider == "litellm" else [None]
        return [None, provider] if model_data.is_flat_rate(provider) else [provider]

    def _look_up(self, provider: str | None, model: str, *, is_equivalent: bool) -> Listing | None:
        listing = self._look_up_alone(provider, model, is_equivalent=is_equivalent)
        if listing is None:
            return None
        cheaper = model_data.find_cheaper_model(listing.provider, model)
        kind, name = find_target(listing.provider, model) or (NO_TARGET, "")
        target = self._look_up_target(listing, name) if name else None
        return replace(
            listing,
            cheaper=self._look_up_target(listing, cheaper) if cheaper else None,
            target_kind=NO_TARGET if target is None else kind,
            target=target,
        )

    def _look_up_target(self, listing: Listing, target: str) -> Listing | None:
        host = find_provider_by_id(self._snapshot.providers, listing.provider)
        for name in names_at_host(listing.model, target, host.models if host else ()):
            found = self._look_up_alone(listing.provider, name, is_equivalent=listing.is_equivalent)
            if found is not None and is_same_model(found.info, target):
                return found
        return None

    def _look_up_alone(
        self, provider: str | None, model: str, *, is_equivalent: bool
    ) -> Listing | None:
        try:
            found, info = self._snapshot.find_provider_model(model, None, provider, None)
        except LookupError:
            return None
        return Listing(
            provider=found.id,
            model=model,
            info=info,
            is_equivalent=is_equivalent,
            is_own=any(info is own for own in found.models),
        )
