"""Names of a customer's own, such as Azure deployments, and the models that they are priced as."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from detectors.errors import PriceTermsError
from detectors.wording.labels import inert

_TARGET: Final = ("provider", "model")
_WILDCARDS: Final = frozenset("*?[")


class Alias(msgspec.Struct, frozen=True):
    """A provider and a model, both with wildcards, that are priced as another model."""

    provider: str
    model: str
    target_provider: str
    target_model: str

    def matches(self, provider: str, model: str) -> bool:
        """Check whether the labels of a call mean this alias; case does not matter."""
        return fnmatchcase(provider.lower(), self.provider) and fnmatchcase(
            model.lower(), self.model
        )

    @property
    def is_exact(self) -> bool:
        return _WILDCARDS.isdisjoint(self.provider + self.model)

    def __str__(self) -> str:
        own = f"{inert(self.provider)} {inert(self.model)}"
        return f"{own} priced as {inert(self.target_provider)} {inert(self.target_model)}"


def read_aliases(given: Mapping[tuple[str, str], Any]) -> tuple[Alias, ...]:
    """Read the aliases by provider and model; those without wildcards come first."""
    found = [_read(key, value) for key, value in given.items()]
    return tuple(sorted(found, key=lambda alias: not alias.is_exact))


def _read(key: object, value: object) -> Alias:
    path = f"aliases[{key!r}]"
    if not isinstance(key, tuple) or len(key) != 2 or not all(map(_is_text, key)):
        raise PriceTermsError(f"{path}: expected a (provider, model) as key")
    if isinstance(value, Mapping):
        if set(value) != set(_TARGET):
            raise PriceTermsError(f"{path}: expected provider and model")
        value = tuple(value[name] for name in _TARGET)
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_is_text, value)):
        raise PriceTermsError(f"{path}: expected the provider and model that it is priced as")
    provider, model = (str(name).lower() for name in key)
    return Alias(provider, model, *map(str, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
