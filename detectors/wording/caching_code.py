"""The change that a finding about caching asks for, as code for the provider's own library."""

from typing import Final, Protocol

_CLAUDE: Final = """\
# The fixed part first, and a marker at its end: later calls read it from the cache.
client.messages.create(
    model={model},
    max_tokens=1024,
    system=[
        {{"type": "text", "text": FIXED_PART, "cache_control": {{"type": "ephemeral"}}}},
    ],
    messages=[{{"role": "user", "content": what_changes}}],
)"""
_GEMINI: Final = """\
# Store the fixed part once, and refer to it in every call.
cache = client.caches.create(
    model={model},
    config={{"system_instruction": FIXED_PART, "ttl": "300s"}},
)
client.models.generate_content(
    model={model},
    contents=what_changes,
    config={{"cached_content": cache.name}},
)"""
_ORDER: Final = """\
# Equal beginnings are cached without asking:
# the fixed part first, what changes last.
client.chat.completions.create(
    model={model},
    messages=[
        {{"role": "system", "content": FIXED_PART}},
        {{"role": "user", "content": what_changes}},
    ],
)"""


class Changed(Protocol):
    """Anything that was found in calls to one model."""

    @property
    def kind(self) -> str: ...

    @property
    def model(self) -> str: ...


def write_code(found: Changed) -> str:
    """Return the change as code; empty for findings that have none."""
    if found.kind != "uncached_prefix":
        return ""
    name = found.model.lower()
    code = _CLAUDE if "claude" in name else _GEMINI if "gemini" in name else _ORDER
    return code.format(model=quote_model(found.model))


def quote_model(model: str) -> str:
    """Write the model as a string; a name with anything unusual in it stays out of the code."""
    is_plain = all(each.isascii() and (each.isalnum() or each in "-._/:@[]") for each in model)
    return f'"{model}"' if is_plain else "MODEL"
