"""The numbers in a library's types of usage, by their paths.

Run it where the libraries are: `python -m tests.detectors.formats.usage.numbers MODULE:CLASS …`
prints them as JSON. It needs nothing but the library's own pydantic.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel

_NUMBERS: Final = ("int", "float")


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a value of this annotation may be, or may be made of."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_of(part)]


def numbers_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the paths of a model's numbers, at any depth."""
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name if not name.isidentifier() else name)
        inner = models_of(field.annotation)
        for each in inner:
            yield from numbers_of(each, f"{path}.")
        if not inner and any(kind in str(field.annotation) for kind in _NUMBERS):
            yield path


def numbers_at(address: str) -> list[str]:
    """Return those of the class at `MODULE:CLASS`."""
    module, _, name = address.partition(":")
    return sorted(set(numbers_of(getattr(importlib.import_module(module), name))))


if __name__ == "__main__":
    sys.stdout.write(json.dumps({address: numbers_at(address) for address in sys.argv[1:]}))
