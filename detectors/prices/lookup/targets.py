"""The model that a call could try instead: its successor, else the next cheaper one of the ladder.

The target is sold by the same host, at the host's own name and rates.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from genai_prices.types import ModelInfo

from detectors.prices import model_data

NO_TARGET: Final = 0
LADDER: Final = 1
SUCCESSOR: Final = 2

# OpenRouter writes the version of a Claude model with a dot.
_DASHED_VERSION = re.compile(r"-(\d+)-(\d+)\Z")


def find_target(provider: str, model: str) -> tuple[int, str] | None:
    """Return the kind and the model provider's name of the target at `provider`."""
    successor = model_data.find_successor(provider, model)
    if successor is not None:
        return SUCCESSOR, successor
    cheaper = model_data.find_cheaper_model(provider, model)
    return None if cheaper is None else (LADDER, cheaper)


def names_at_host(model: str, target: str, listed: Iterable[ModelInfo]) -> Iterator[str]:
    """Yield the target's possible names, written as the host writes the model's.

    `listed` are the host's models: some hosts know a model by its dated name only.
    """
    prefix = model_data.prefix(model)
    short = prefix.rpartition("/")[2]
    ids = [info.id for info in listed if is_same_model(info, target)]
    endings = [target, _DASHED_VERSION.sub(r"-\1.\2", target)]
    endings += [name.removeprefix(model_data.prefix(name)) for name in ids]
    # A region that has its own list of some models only falls back to the host's name for all.
    starts = (short if prefix.startswith("arn:") else prefix, short, short.partition(".")[2], "")
    for start in dict.fromkeys(starts):
        yield from (start + ending for ending in endings)


def is_same_model(info: ModelInfo, target: str) -> bool:
    """Check that the book's entry is for this very model, which a loose match does not ensure."""
    return model_data.base_name(info.id) == model_data.base_name(target)
