"""Names of a customer's own, such as Azure deployments, and the models that they are priced as."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import msgspec

from detectors.errors import PriceTermsError
from detectors.prices.agreed.agreements import Refuse, Where, raise_error, read_names, wrong
from detectors.prices.agreed.bounds import MAX_NAME
from detectors.wording.labels import inert

_TARGET: Final = ("provider", "model")
_WILDCARDS: Final = frozenset("*?[")


class Alias(msgspec.Struct, frozen=True):
    """A provider and a model, both with wildcards, that are priced as another model."""

    provider: str
    model: str
    target_provider: str
    target_model: str

    @property
    def is_exact(self) -> bool:
        return _WILDCARDS.isdisjoint(self.provider + self.model)

    def __str__(self) -> str:
        own = f"{inert(self.provider)} {inert(self.model)}"
        return f"{own} priced as {inert(self.target_provider)} {inert(self.target_model)}"


class Aliases:
    """Finds the alias of a call, those without wildcards first; case does not matter."""

    def __init__(self, aliases: Iterable[Alias]) -> None:
        named = list(aliases)
        # Of equal names, the first stands.
        self._exact = {(each.provider, each.model): each for each in named[::-1] if each.is_exact}
        self._others = [each for each in named if not each.is_exact]

    def find(self, provider: str, model: str) -> Alias | None:
        """Return the alias that the labels of a call mean; None if there is none."""
        provider, model = provider.lower(), model.lower()
        exact = self._exact.get((provider, model))
        if exact is not None or not self._others:
            return exact
        found = self._pattern.match(f"{provider}\n{model}")
        return self._others[found.lastindex - 1] if found and found.lastindex else None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Return one alternation of all wildcards, so that labels are read once for all of them.

        An empty group ends each, which says what has matched: before it, the engine would not skip
        those that begin with another character. A line break separates provider and model, and
        the pattern of a provider can't match it, because without DOTALL a dot doesn't.
        """
        by_provider = groupby(self._others, lambda alias: _body(alias.provider))
        alternatives = (
            rf"{provider}\n(?s:{'|'.join(f'{_body(each.model)}()' for each in some)})"
            for provider, some in by_provider
        )
        compiled = re.compile(rf"(?:{'|'.join(alternatives)})\Z")
        # The module keeps the last 512 patterns, which are as long as callers make them.
        re.purge()
        return compiled


def _body(wildcards: str) -> str:
    """Return wildcards as a regular expression, without the flags and the end around it."""
    return translate(wildcards).removeprefix("(?s:").rpartition(")")[0]


def read_aliases(
    given: Mapping[tuple[str, str], Any], refuse: Refuse = raise_error
) -> tuple[Alias, ...]:
    found: list[Alias] = []
    for key, value in given.items():
        where: Where = ("aliases", *(map(str, key) if isinstance(key, tuple) else [str(key)]))
        try:
            provider, model = read_names(key, where)
            target = value
            if isinstance(value, Mapping):
                if set(value) != set(_TARGET):
                    raise wrong(where, "expected provider and model")
                target = tuple(value[name] for name in _TARGET)
            if (
                not isinstance(target, list | tuple)
                or len(target) != 2
                or not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in target)
            ):
                raise wrong(
                    where,
                    "expected the provider and model that it is priced as, of 1 to "
                    f"{MAX_NAME} characters",
                )
            found.append(Alias(provider, model, *map(str, target)))
        except PriceTermsError as error:
            refuse(error)
    return tuple(sorted(found, key=lambda alias: not alias.is_exact))
