"""The models of the price book: which entry the labels of a call mean.

Uses genai-prices' own matching first, then the names of `rewrite`, then a name that differs
in its snapshot only. An unknown model is never guessed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import Final

from genai_prices.data_snapshot import DataSnapshot, find_provider_by_id
from genai_prices.types import ModelInfo, Provider
from msgspec.structs import replace

from detectors.prices import model_data
from detectors.prices.listing import Listing
from detectors.prices.lookup.published import find_follows
from detectors.prices.lookup.targets import NO_TARGET, find_target, is_same_model, names_at_host

# None is the provider that a model's name implies.
Attempt = tuple[str | None, str]
HostOf = Callable[[str], str | None]

_MOST_PREFIXES: Final = 8
# Bedrock's names: us.anthropic.claude-…, meta.llama3-…, arn:aws:bedrock:….
_BEDROCK = re.compile(
    r"\A(?:arn:aws[a-z-]*:bedrock:|(?:[a-z-]+\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen|writer)\.[a-z])"
)


def rewrite(own: str | None, model: str, host_of: HostOf) -> Iterator[Attempt]:
    """Yield other names of a model that the provider `own` does not list under this name."""
    if _BEDROCK.match(model.lower()) and own != "aws":
        yield "aws", model
    host, name = own, model
    for _ in range(_MOST_PREFIXES):
        prefix, slash, rest = name.partition("/")
        if not slash or not rest:
            break
        named = host_of(prefix)
        if is_guessed(host) and named != host:
            # OpenRouter answers in OpenAI's form, and its names have the model provider in front.
            yield "openrouter", name
        host, name = named or host, rest
        yield host, name
    if name != model and own != host:
        yield own, name
    if is_guessed(own) or own is None:
        yield None, model


def is_guessed(provider: str | None) -> bool:
    """Check whether readers of logs guess this provider from the form of a response."""
    return provider in model_data.guessed_providers()


# The book's mark of Bedrock's prices within a region, which no call has in its name.
REGIONAL: Final = "regional."


class Index:
    def __init__(self, providers: list[Provider]) -> None:
        self.providers = providers

    @cached_property
    def ids_by_base(self) -> dict[tuple[str, str], list[str]]:
        """Return the IDs of a provider's models that differ in prefix and snapshot only."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for provider in self.providers:
            for info in self.models(provider):
                found[provider.id, model_data.base_name(info.id)].append(info.id)
        for names in found.values():
            # A bare name on Bedrock is priced within its region; undated names come first.
            names.sort(key=lambda name: (not name.startswith(REGIONAL), len(name)))
        return found

    @cached_property
    def sellers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for provider in self.providers:
            for info in provider.models:
                found[info.id.lower()].append(provider.id)
        return found

    def models(self, provider: Provider) -> Iterable[ModelInfo]:
        """Yield the models that a provider sells, its own first."""
        yield from provider.models
        for other in self.providers:
            if other.id in (provider.fallback_model_providers or ()):
                yield from other.models


# The index of the last price book.
_LAST: Final[list[Index]] = []


def index_of(providers: list[Provider]) -> Index:
    """Return the index of a price book; making it takes longer than a small audit."""
    if not _LAST or _LAST[0].providers is not providers:
        _LAST[:] = [Index(providers)]
    return _LAST[0]


_MOST_SUGGESTIONS: Final = 3
_LEAST_LIKENESS: Final = 0.6


class Catalog:
    def __init__(self, snapshot: DataSnapshot) -> None:
        # A snapshot remembers all names that it was asked for; these are forgotten with the book.
        self._snapshot = DataSnapshot(snapshot.providers, snapshot.from_auto_update)
        self._index = index_of(snapshot.providers)
        self._found: dict[tuple[str, str], Listing | None] = {}

    def host(self, label: str) -> str | None:
        """Return the price book's ID of a provider; None if the book does not have it."""
        known = model_data.find_host(label) or label
        provider = find_provider_by_id(self._snapshot.providers, known)
        return None if provider is None else provider.id

    def find(self, label: str, model: str) -> Listing | None:
        key = (label, model)
        if key not in self._found:
            found, own, is_plan = None, self.host(label), model_data.is_flat_rate(label)
            for provider, name in self._attempts(label, own, model, is_plan=is_plan):
                listing = self._look_up(provider, name)
                if listing is not None:
                    # Under a wrong but known label the bill may be another; a guessed one is no
                    # sign.
                    is_other = listing.provider != own and not is_guessed(own)
                    found = replace(listing, is_equivalent=is_plan or is_other)
                    break
            self._found[key] = found
        return self._found[key]

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
        kind, wanted = find_target(listing.provider, model) or (NO_TARGET, "")
        target, host = None, None
        if wanted:
            host = find_provider_by_id(self._snapshot.providers, listing.provider)
        listed = host.models if host else ()
        for name in names_at_host(listing.model, wanted, listed) if wanted else ():
            found = self._look_up_alone(listing.provider, name)
            if found is not None and is_same_model(found.info, wanted):
                target = replace(found, original=self._find_original(found.provider, name))
                break
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
        providers: list[Provider] = sorted(
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
