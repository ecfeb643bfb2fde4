"""Find the provider whose prices apply to a call."""

from __future__ import annotations

from typing import Any

# Words in client class names, and the provider that sells those calls at its own prices.
_CLASS_WORDS = (
    ("Azure", "azure"),
    ("Foundry", "azure"),
    ("Bedrock", "aws"),
    ("AWS", "aws"),
    ("Vertex", "google"),
    ("GoogleCloud", "google"),
)
# Endings of hosts that the libraries connect to.
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
    ("api.arcee.ai", "arcee"),
    ("api.avian.io", "avian"),
    ("inference.baseten.co", "baseten"),
    ("api.cohere.ai", "cohere"),
    ("api.cohere.com", "cohere"),
    ("databricks.com", "databricks"),
    ("azuredatabricks.net", "databricks"),
    ("api.doubleword.ai", "doubleword"),
    ("api.meta.ai", "meta"),
    ("api.minimax.io", "minimax"),
    ("api.minimaxi.com", "minimax"),
    ("modal.run", "modal"),
    ("modal.direct", "modal"),
    ("oai.endpoints.kepler.ai.cloud.ovh.net", "ovhcloud"),
    ("open.bigmodel.cn", "zhipuai"),
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
)


# The program's own: providers of other hosts, such as a gateway of the company.
_hosts: dict[str, str] = {}
_REMEMBERED = 256
_sellers: dict[str, str | None] = {}


def name_hosts(providers: dict[str, str]) -> None:
    """Set which provider's prices apply to calls of each host; others keep theirs."""
    global _hosts
    _hosts = {host.lower(): provider for host, provider in providers.items()}


def provider_of(client: Any, library: str) -> str:
    """Return the provider of the client's class or host, or else the library's own."""
    url: Any = None
    try:
        url = client._base_url
        cached_url, label = client._tallystick_seller
        if cached_url is url:
            return label or library
    except AttributeError:
        pass
    host = getattr(url, "host", None)
    label = _seller(type(client).__mro__, host if isinstance(host, str) else "")
    try:
        # Cached on the client with its URL, because programs may set another URL.
        client._tallystick_seller = url, label
    except AttributeError:
        pass
    return label or library


def provider_at(host: str, library: str) -> str:
    """Return the provider of a host, or else the library's own."""
    if host in _hosts:
        return _hosts[host]
    if host not in _sellers:
        if len(_sellers) >= _REMEMBERED:
            _sellers.clear()
        _sellers[host] = _seller((), host)
    return _sellers[host] or library


def _seller(kinds: tuple[type, ...], host: str) -> str | None:
    named = _hosts.get(host.lower())
    if named is not None:
        return named
    for word, label in _CLASS_WORDS:
        if any(word in kind.__name__ for kind in kinds):
            return label
    for ending, label in _HOST_ENDINGS:
        if host == ending or host.endswith("." + ending):
            return label
    return None
