"""A model's name at the host that serves it: clouds and gateways spell names their own way."""

from functools import cache

from genai_prices.data_snapshot import get_snapshot

from tests.detectors.reference.calls import Call
from tests.detectors.reference.catalog import own_name
from tests.detectors.reference.pricing import Price, price

_HOSTS = ("aws", "openrouter")


def target_price(call: Call, target: str) -> Price | None:
    """Return the call's price at another model of the same host."""
    name = target_name(call, target)
    return price(call.record, name) if name else None


def target_name(call: Call, target: str) -> str | None:
    """Return the host's name of another model."""
    if call.price.vendor not in _HOSTS:
        return target
    return name_at_host(call.price.vendor, call.record.model, target)


@cache
def name_at_host(host: str, model: str, target: str) -> str | None:
    """Return the host's name of the target, in the scope (region or variant) of the model."""
    provider = next(each for each in get_snapshot().providers if each.id == host)
    priced = provider.find_model(model)
    same = [each.id for each in provider.models if own_name(each.id) == target]
    same = [name for name in same if _scope(name) == _scope(priced.id if priced else model)]
    if not same:
        return None
    region = model.lower().rpartition("/")[2].partition("anthropic.")[0]
    return same[0].replace("regional.", region)


def _scope(name: str) -> str:
    if "anthropic." in name:
        return name.partition("anthropic.")[0]
    return name[:1] * name.startswith("~") + name.partition(":")[2]
