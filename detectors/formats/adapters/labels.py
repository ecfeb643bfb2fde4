"""Decides which strings of a raw log may stay: names from programs, never prose.

A model, a route or an ID is kept if it looks like one: no spaces, only ASCII, no email addresses.
Any other ID is replaced by a hash of it, so that duplicate rows are still found.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from detectors.formats.fields import read_levels

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}")
_ANSWER_ID: Final = re.compile(
    r"(?:time-[0-9-]{1,40}_)?((?:chatcmpl-|cmpl-|resp_|msg_|gen-)[A-Za-z0-9._:-]{1,110})"
)
# A call that an agent exports as an event; its session file has another ID for it.
EVENT_ID: Final = "agent-event-"
# Providers never give two responses the same ID; what users name may name several calls.
RESPONSE_ID: Final = r"^(?:chatcmpl-|cmpl-|resp_|msg_|gen-)"
_UUID: Final = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
# IDs that are known by their provider, under any of its names, because they begin with nothing.
RESPONSE_IDS: Final = (
    (("aws", "bedrock", "amazon-bedrock"), _UUID),
    (("cohere", "cohere_chat"), _UUID),
    (("google", "gemini", "vertex_ai"), r"^[A-Za-z0-9_-]{20,24}$"),
    (("mistral", "mistralai"), r"^[0-9a-f]{32}$"),
)


def _finder(form: str) -> Callable[[Any], str | None]:
    """Return what returns a text of this form, and None for anything else."""
    pattern = re.compile(form)
    return lambda value: value if isinstance(value, str) and pattern.fullmatch(value) else None


# Vertex AI's dates, and Claude Code's mark of a long context.
_MODEL_ENDS: Final = r"(?:@(?:[0-9]{1,8}|default|latest))?(?:\[1m\])?"
find_model: Final = _finder(rf"[A-Za-z0-9][A-Za-z0-9._:/+-]{{0,99}}{_MODEL_ENDS}")
find_tag: Final = _finder(r"[A-Za-z0-9/][A-Za-z0-9._:/+#-]{0,119}")
find_provider: Final = _finder(r"[a-z0-9][a-z0-9._-]{0,63}")
find_hash: Final = _finder(r"[0-9a-fA-F]{64}")


def find_levels(value: Any, prefix_hash: str | None) -> list[str] | None:
    """Return hashes by level that begin as the hash of the first one; None for anything else."""
    try:
        levels = read_levels(value)
    except ValueError:
        return None
    is_same = not prefix_hash or prefix_hash.lower().startswith(levels[0])
    return levels if is_same else None


def lower_name(value: Any) -> str | None:
    return value.lower() if isinstance(value, str) else None


def last_name(value: Any) -> str | None:
    """Return the model of a resource name or ARN, such as `models/gemini-2.5-pro`."""
    return value.rpartition("/")[2] if isinstance(value, str) else None


def id_of(value: Any) -> str | None:
    """Return the ID, or a hash of it; None without an ID."""
    if not isinstance(value, str) or not value:
        return None
    if _ID.fullmatch(value):
        return value
    return f"id-{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def route_of(folder: Any) -> str | None:
    """Return the route of an agent's project: its folder's name."""
    if not isinstance(folder, str):
        return None
    return _find_folder(_SEPARATOR.split(folder.rstrip("/\\"))[-1])


SUBAGENT: Final = "#subagent"  # after the route, for calls of a sub-agent
_SEPARATOR: Final = re.compile(r"[/\\]")
_find_folder: Final = _finder(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def answer_id(value: Any) -> str | None:
    """Return the ID that a model provider gave its answer; None for a log's own ID.

    All ways that a call comes by have that ID in common. LiteLLM puts a time before it.
    """
    found = _ANSWER_ID.fullmatch(value) if isinstance(value, str) else None
    return found and found[1]


def is_response_id(provider: str, name: str) -> bool:
    """Check for an ID that only the model's provider can have given."""
    forms = (pattern for names, pattern in RESPONSE_IDS if provider in names)
    return any(re.match(pattern, name) for pattern in (RESPONSE_ID, *forms))


def provider_of(model: str) -> str:
    """Return the model provider for a model's name, or `unknown`."""
    name = model.rpartition("/")[2].lower()
    for starts, provider in _STARTS:
        if name.startswith(starts):
            return provider
    return "unknown"


_STARTS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("gpt-", "o1", "o3", "o4", "chatgpt-", "text-embedding-", "davinci", "codex-"), "openai"),
    (("claude", "anthropic."), "anthropic"),
    (("gemini", "gemma", "text-bison"), "google"),
    (("mistral", "mixtral", "codestral", "ministral", "magistral"), "mistral"),
    (("deepseek",), "deepseek"),
    (("grok",), "x-ai"),
    (("command",), "cohere"),
)
