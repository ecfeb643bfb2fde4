"""Who is paid for a call: the label that prices are looked up by."""

from __future__ import annotations

from typing import Any

# Words in the names of the vendors' client classes; what these are sold by has prices of its own.
_CLASS_WORDS = (
    ("Azure", "azure"),
    ("Foundry", "azure"),
    ("Bedrock", "aws"),
    ("AWS", "aws"),
    ("Vertex", "google"),
    ("GoogleCloud", "google"),
)
# Hosts that the vendors' libraries are pointed at, by how they end.
_HOST_ENDINGS = (
    ("openai.azure.com", "azure"),
    ("services.ai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("azure-api.net", "azure"),
    ("amazonaws.com", "aws"),
    ("api.aws", "aws"),
    ("googleapis.com", "google"),
    ("openrouter.ai", "openrouter"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral"),
    ("api.x.ai", "x-ai"),
    ("api.together.xyz", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("api.cerebras.ai", "cerebras"),
    ("api.perplexity.ai", "perplexity"),
    ("api.moonshot.ai", "moonshotai"),
    ("api.moonshot.cn", "moonshotai"),
    ("api.novita.ai", "novita"),
    ("api.z.ai", "zai"),
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
)


def provider_of(client: Any, library: str) -> str:
    """The seller that the client's class or host tells of, else the library's own vendor."""
    url: Any = None
    try:
        url = client._base_url
        told_by, label = client._tallystick_seller
        if told_by is url:
            return label or library
    except AttributeError:
        pass
    host = getattr(url, "host", None)
    label = _seller(type(client).__mro__, host if isinstance(host, str) else "")
    try:
        # On the client itself, beside the URL that told it: programs may set another one.
        client._tallystick_seller = url, label
    except AttributeError:
        pass
    return label or library


def _seller(kinds: tuple[type, ...], host: str) -> str | None:
    for word, label in _CLASS_WORDS:
        if any(word in kind.__name__ for kind in kinds):
            return label
    for ending, label in _HOST_ENDINGS:
        if host == ending or host.endswith("." + ending):
            return label
    return None
