"""The names under which a call's model may be listed, most likely first.

Gateways write prefixes, hosts write regions, and readers of logs guess the provider from the form
of a response. A name is only ever rewritten, never completed.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from detectors.prices import model_data

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
