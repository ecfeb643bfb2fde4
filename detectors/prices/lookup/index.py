"""An index of the model names in a price book, shared by all audits that use the same book."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from detectors.prices import model_data

if TYPE_CHECKING:
    from detectors.prices.lookup.records import AnyModel, AnyProvider, AnySnapshot

# The book's mark of Bedrock's prices within a region, which no call has in its name.
REGIONAL: Final = "regional."


class Index:
    def __init__(self, snapshot: "AnySnapshot") -> None:
        self._snapshot = snapshot

    @cached_property
    def ids_by_base(self) -> dict[tuple[str, str], list[str]]:
        """Return the IDs of a provider's models that differ in prefix and snapshot only."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for provider in self._snapshot.providers:
            for info in self.models(provider):
                found[provider.id, model_data.base_name(info.id)].append(info.id)
        for names in found.values():
            # A bare name on Bedrock is priced within its region; undated names come first.
            names.sort(key=lambda name: (not name.startswith(REGIONAL), len(name)))
        return found

    @cached_property
    def sellers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for provider in self._snapshot.providers:
            for info in provider.models:
                found[info.id.lower()].append(provider.id)
        return found

    def models(self, provider: "AnyProvider") -> Iterable["AnyModel"]:
        """Yield the models that a provider sells, its own first."""
        yield from provider.models
        for other in self._snapshot.providers:
            if other.id in (provider.fallback_model_providers or ()):
                yield from other.models


# The index of the last price book; it keeps its snapshot alive, so the ID stays unique.
_LAST: Final[dict[int, Index]] = {}


def index_of(snapshot: "AnySnapshot") -> Index:
    """Return the index of a price book; making it takes longer than a small audit."""
    index = _LAST.get(id(snapshot))
    if index is None:
        index = Index(snapshot)
        _LAST.clear()
        _LAST[id(snapshot)] = index
    return index
