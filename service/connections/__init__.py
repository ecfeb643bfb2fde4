"""What model providers report of an organization's usage and costs: one folder per provider.

A provider's folder has its client, the mapping to our lines, its documentation, examples of its
responses, and the stub that plays it in tests. Nothing here reads or writes the database.
"""

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

from service.connections.provider import Provider


@cache
def list_providers() -> Mapping[str, Provider]:
    """Return the providers by name. Each subfolder is one, so a new one changes no other file."""
    found = (
        import_module(f"{__name__}.{module.name}").PROVIDER
        for module in pkgutil.iter_modules(__path__)
        if module.ispkg
    )
    return {provider.name: provider for provider in found}


def list_priced() -> Sequence[str]:
    """Return the names of the providers whose usage comes with dollars of its own."""
    return [name for name, each in list_providers().items() if each.prices_usage]
