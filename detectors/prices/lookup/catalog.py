"""The models of the price book: which entry the labels of a call mean.

Uses genai-prices' own matching first, then the names of module `names`, then a name that differs
in its snapshot only. An unknown model is never guessed.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from detectors.prices import model_data
from detectors.prices.listing import Listing
from detectors.prices.lookup.index import REGIONAL, index_of
from detectors.prices.lookup.names import Attempt, is_guessed, rewrite
from detectors.prices.lookup.published import find_follows
from detectors.prices.lookup.records import find_provider_by_id
from detectors.prices.lookup.targets import NO_TARGET, find_target, is_same_model, names_at_host

if TYPE_CHECKING:
    from detectors.prices.lookup.records import AnyProvider, AnySnapshot

_MOST_SUGGESTIONS: Final = 3
_LEAST_LIKENESS: Final = 0.6


class Catalog:
    def __init__(self, snapshot: "AnySnapshot") -> None:
        self._snapshot = snapshot
        self._index = index_of(snapshot)
        self._found: dict[tuple[str, str], Listing | None] = {}

    def host(self, label: str) -> str | None:
        """Return the price book's ID of a provider; None if the book does not have it."""
        known = model_data.find_host(label) or label
        provider = find_provider_by_id(self._snapshot.providers, known)
        return None if provider is None else provider.id

    def find(self, label: str, model: str) -> Listing | None:
        key = (label, model)
        if key not in self._found:
            self._found[key] = self._find(label, model)
        return self._found[key]

    def _find(self, label: str, model: str) -> Listing | None:
        own = self.host(label)
        is_plan = model_data.is_flat_rate(label)
        for provider, name in self._attempts(label, own, model, is_plan=is_plan):
            listing = self._look_up(provider, name)
            if listing is not None:
                # Under a wrong but known label the bill may be another; a guessed label is no sign.
                is_other = listing.provider != own and not is_guessed(own)
                return replace(listing, is_equivalent=is_plan or is_other)
        return None

    def _attempts(
        self, label: str, own: str | None, model: str, *, is_plan: bool
    ) -> Iterator[Attempt]:
        # A plan's label may be a provider of the book too; the model provider's price comes first.
        if is_plan or own is None:
            # litellm is a gateway: the book takes the provider from the model's name.
            yield ("litellm" if label == "litellm" else None), model
        if own is not None:
            yield own, model
        prefix = model_data.prefix(model)
        for name in self._index.ids_by_base.get((own or "", model_data.base_name(model)), ()):
            if not prefix or prefix == model_data.prefix(name):
                yield own, name.removeprefix(REGIONAL)
        yield from rewrite(own, model, self.host)
        if own is None or is_guessed(own):
            sellers = self._index.sellers.get(model.lower(), [])
            if len(sellers) == 1:
                yield sellers[0], model

    def _look_up(self, provider: str | None, model: str) -> Listing | None:
        listing = self._look_up_alone(provider, model)
        if listing is None:
            return None
        kind, name = find_target(listing.provider, model) or (NO_TARGET, "")
        target = self._look_up_target(listing, name) if name else None
        return replace(
            listing,
            target_kind=NO_TARGET if target is None else kind,
            target=target,
            original=self._find_original(listing.provider, listing.model),
        )

    def _find_original(self, provider: str, model: str) -> Listing | None:
        """Return the model provider's own entry for a model of a host that follows its prices."""
        if find_follows(provider) is None:
            return None
        original = self._look_up_alone(None, model.removeprefix(model_data.prefix(model)))
        return original if original is not None and original.provider != provider else None

    def _look_up_target(self, listing: Listing, target: str) -> Listing | None:
        host = find_provider_by_id(self._snapshot.providers, listing.provider)
        for name in names_at_host(listing.model, target, host.models if host else ()):
            found = self._look_up_alone(listing.provider, name)
            if found is not None and is_same_model(found.info, target):
                return replace(found, original=self._find_original(found.provider, name))
        return None

    def _look_up_alone(self, provider: str | None, model: str) -> Listing | None:
        try:
            found, info = self._snapshot.find_provider_model(model, None, provider, None)
        except LookupError:
            return None
        is_own = any(info is own for own in found.models)
        return Listing(found.id, model, info, is_equivalent=False, is_own=is_own)

    def suggest(self, label: str, model: str) -> list[tuple[str, str]]:
        own = self.host(label)
        # Of equal names, that of the provider whose models have such names comes first.
        providers: list[AnyProvider] = sorted(
            self._snapshot.providers, key=lambda each: each.model_match is None
        )
        by_name: dict[str, tuple[str, str]] = {}
        for provider in providers:
            if own in (None, provider.id):
                for info in self._index.models(provider):
                    name = model_data.base_name(info.id.removeprefix(REGIONAL))
                    by_name.setdefault(name, (provider.id, info.id.removeprefix(REGIONAL)))
        wanted = model_data.base_name(model.removeprefix("ft:").partition(":")[0])
        near = get_close_matches(wanted, by_name, n=2 * _MOST_SUGGESTIONS, cutoff=_LEAST_LIKENESS)
        # Some names of the book are the beginning of names, such as a fine-tune's.
        known = [by_name[name] for name in near if self._look_up_alone(*by_name[name])]
        return known[:_MOST_SUGGESTIONS]

    def suggest_provider(self, label: str) -> str | None:
        near = get_close_matches(label, [known.id for known in self._snapshot.providers], n=1)
        return near[0] if near else None
