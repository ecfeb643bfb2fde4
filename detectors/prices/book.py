"""The price book: the listing of a (provider, model) pair, and its rates at a given time.

Uses genai-prices' own data and matching, so that costs agree with `genai_prices.calc_price`. Module
`table` prices whole frames.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from datetime import date, timedelta
from typing import Any, Self

from genai_prices import __version__
from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
)
from msgspec.structs import replace

from detectors.contract import LAST_INSTANT
from detectors.errors import PriceTermsError
from detectors.prices import units
from detectors.prices.agreed.agreements import Refuse, raise_error, wrong
from detectors.prices.agreed.aliases import Aliases
from detectors.prices.agreed.price_file import Locator, PriceTerms, read_toml, write_toml
from detectors.prices.agreed.terms import AgreedTerms, Discount, Override, cache_rates
from detectors.prices.listing import Listing
from detectors.prices.lookup.catalog import Catalog


def private_model(model: str, overrides: Sequence[Override]) -> ModelInfo:
    prices = [ConditionalPrice(prices=ModelPrice())]
    for override in sorted(overrides, key=lambda each: each.period.first or date.min):
        first, last = override.period.first, override.period.last
        start = StartDateConstraint(first) if first else None
        prices.append(ConditionalPrice(start, prices=ModelPrice(**override.rates)))
        if last:
            end = StartDateConstraint(last + timedelta(days=1))
            prices.append(ConditionalPrice(end, prices=ModelPrice()))
    return ModelInfo(id=model, match=ClauseEquals(model.lower()), prices=prices)


class PriceBook:
    """The rates of every model in the installed version of genai-prices.

    Negotiated rates replace list prices everywhere: for the calls, for the cheaper models that
    findings suggest, and in every dollar figure. The report lists them.

    Parameters
    ----------
    snapshot : genai_prices.data_snapshot.DataSnapshot, optional
        Other prices than the installed ones, such as an update or your own.
    version : str, optional
        The name of these prices in the report; by default, the version of genai-prices.
    as_of : str, optional
        The date of these prices in the report, such as ``2026-11-22``.
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

    aliases : mapping of (str, str) to (str, str), optional
        Your own names, such as Azure deployments: the provider and model of a call, with
        wildcards (``*``), and the provider and model that it is priced as.

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
        version: str | None = None,
        as_of: str = "",
        discounts: Mapping[str, Any] | None = None,
        overrides: Mapping[tuple[str, str], Any] | None = None,
        aliases: Mapping[tuple[str, str], Any] | None = None,
    ) -> None:
        self.version = version or __version__
        self.as_of = as_of
        self.excluded: tuple[str, ...] = ()
        self._catalog = Catalog(snapshot or get_snapshot())
        self._apply(PriceTerms.read(discounts, overrides, aliases), raise_error)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        return cls().with_toml(text)

    def with_toml(self, text: str) -> Self:
        """Return the same prices with the terms of a TOML file.

        An error names the line and what was expected.
        """
        return self._with(read_toml(text), Locator(text).wrap(raise_error))

    def with_stored_toml(self, text: str) -> Self:
        """Return the same prices with those terms of a TOML file that still can be applied.

        `excluded` says why the others can't: of a model that is no longer in the price book, for
        instance.
        """
        errors: list[PriceTermsError] = []
        other = self._with(read_toml(text, errors.append), Locator(text).wrap(errors.append))
        other.excluded = tuple(map(str, errors))
        return other

    def _with(self, terms: PriceTerms, refuse: Refuse) -> Self:
        other = copy(self)
        other._apply(terms, refuse)
        return other

    def to_toml(self) -> str:
        return write_toml(self.terms)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases as text, for the report."""
        return tuple(map(str, self.terms.aliases))

    def suggest(self, provider: str, model: str) -> list[tuple[str, str]]:
        return self._catalog.suggest(provider, model)

    @property
    def negotiated(self) -> tuple[str, ...]:
        """Return the negotiated rates as text, for the report."""
        found = [str(discount) for discount in self.terms.discounts]
        for override in self.terms.overrides:
            # An override of the input rate moves the cache rates with it.
            listing = self._catalog.find(override.provider, override.model)
            latest = LAST_INSTANT - timedelta(days=1)
            listed = None if listing is None else listing.find_rates(latest, 0)
            moves = listed is not None and units.INPUT in override.usd
            if listed is not None and moves and cache_rates(listed.own) - override.usd.keys():
                found.append(f"{override}; cache rates scaled in proportion to input")
            else:
                found.append(str(override))
        return tuple(found)

    def _apply(self, terms: PriceTerms, refuse: Refuse) -> None:
        """Use these terms, without those of models that the book doesn't have."""
        self._listings: dict[tuple[str, str], Listing | None] = {}
        self._discounts: dict[str, list[Discount]] = {}
        self._overrides: dict[str, list[tuple[ModelInfo, Override]]] = {}  # by the model's ID
        self._private: dict[tuple[str, ...], list[Override]] = {}
        self._aliases = Aliases(())
        discounts, overrides, aliases = [], [], []
        for discount in terms.discounts:
            host = self._catalog.host(discount.provider)
            if host is None:
                near = self._catalog.suggest_provider(discount.provider)
                suggestion = f"; did you mean {near}?" if near else ""
                unknown = f"this provider is not in the price book{suggestion}"
                refuse(wrong(("discounts", discount.provider), unknown))
            else:
                self._discounts.setdefault(host, []).append(discount)
                discounts.append(discount)
        for override in terms.overrides:
            listing = self._catalog.find(*override.concerns)
            if listing is not None:
                own = self._overrides.setdefault(listing.info.id, [])
                own.append((listing.info, override))
            elif override.is_whole:
                self._private.setdefault(override.concerns, []).append(override)
            else:
                unknown = (
                    "this model is not in the price book; a model of your own needs input_mtok "
                    "and output_mtok"
                )
                refuse(wrong(("overrides", *override.concerns), unknown))
                continue
            overrides.append(override)
        for alias in terms.aliases:
            if self._find_listing(alias.target_provider, alias.target_model) is None:
                unknown = f"{alias}: that model is not in the price book"
                refuse(wrong(("aliases", alias.provider, alias.model), unknown))
            else:
                aliases.append(alias)
        self.terms = PriceTerms(tuple(discounts), tuple(overrides), tuple(aliases))
        self._aliases = Aliases(aliases)

    def find_listing(self, provider: str, model: str) -> Listing | None:
        key = (provider, model)
        if key not in self._listings:
            alias = self._aliases.find(*key)
            target = (alias.target_provider, alias.target_model) if alias else key
            self._listings[key] = self._find_listing(*target)
        return self._listings[key]

    def _find_listing(self, provider: str, model: str) -> Listing | None:
        listing = self._catalog.find(provider, model)
        if listing is None:
            overrides = self._private.get((provider.lower(), model.lower()))
            if overrides is None:
                return None
            info = private_model(model, overrides)
            return Listing(provider=provider, model=model, info=info, is_equivalent=False)
        target = listing.target and self._with_terms(listing.target, provider)
        return replace(self._with_terms(listing, provider), target=target)

    def _with_terms(self, listing: Listing, label: str) -> Listing:
        """Add the terms negotiated with the listing's provider, or for this label."""
        overrides = tuple(
            each
            for info, each in self._overrides.get(listing.info.id, ())
            if info is listing.info
            and (
                self._catalog.host(each.provider) == listing.provider
                or each.provider == label.lower()
            )
        )
        discounts = tuple(self._discounts.get(listing.provider, ()))
        return replace(listing, terms=AgreedTerms(discounts, overrides))
