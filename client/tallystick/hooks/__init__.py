"""Hooks into the model providers' libraries: three methods each, wrapped on their classes.

A wrapper never stops a call. Each is installed separately, so if a library moves one method, the
others still work.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import FunctionType, ModuleType
from typing import Any, Callable

from tallystick.capture import note_unhooked
from tallystick.hooks import answers, requests, streams
from tallystick.hooks.importing import when_imported

_Wrap = Callable[..., Any]

# Per module of a library: the class, its method, and what wraps it.
_POINTS: dict[str, tuple[tuple[str, str, _Wrap], ...]] = {
    "_base_client": (
        ("SyncAPIClient", "request", requests.wrap_request),
        ("AsyncAPIClient", "request", functools.partial(requests.wrap_request, is_async=True)),
    ),
    "_response": (("BaseAPIResponse", "_parse", answers.wrap_parse),),
    "_legacy_response": (("LegacyAPIResponse", "_parse", answers.wrap_parse),),
    "_streaming": (
        ("Stream", "close", streams.wrap_close),
        ("AsyncStream", "close", functools.partial(streams.wrap_close, is_async=True)),
    ),
    "lib.streaming._messages": (  # Anthropic's
        ("MessageStream", "__init__", streams.wrap_helper),
        ("AsyncMessageStream", "__init__", streams.wrap_helper),
    ),
}
# All made by the same generator, with the same base.
_LIBRARIES = ("openai", "anthropic", "groq", "together")
# Modules of libraries with other bases, and of ours what hooks them: its `POINTS` are the class,
# its method, or else others of which the first is there, and what wraps it.
_ELSEWHERE = {
    "google.genai.models": "gemini",
    "google.genai._api_client": "gemini",
    "google.genai.batches": "batches",
    "google.genai._gaos.basesdk": "mistral",
    "mistralai.basesdk": "mistral",
    "mistralai.client.basesdk": "mistral",
    "mistralai.azure.client.basesdk": "mistral",
    "mistralai.gcp.client.basesdk": "mistral",
    "mistralai_azure.basesdk": "mistral",
    "mistralai_gcp.basesdk": "mistral",
    "cohere.core.http_client": "cohere",
    "anthropic.resources.messages.batches": "batches",
    "anthropic.resources.beta.messages.batches": "batches",
    "litellm.llms.custom_httpx.http_handler": "litellm",
    "botocore.client": "bedrock",
    "dspy._vendor.lm15.transports._sync": "dspy",
    "dspy._vendor.lm15.transports._async": "dspy",
}
_OPTIONAL = "lib.streaming._messages"  # not all versions make a stream of its own there
_MARK = "__tallystick_original__"


def install() -> None:
    """Hook what is imported already, and the rest when it is; never import anything."""
    names = [f"{library}.{module}" for library in _LIBRARIES for module in _POINTS]
    actions = {
        **dict.fromkeys(names, _hook_module),
        **dict.fromkeys(_ELSEWHERE, _hook_elsewhere),
    }
    when_imported(actions)
    for name, action in actions.items():
        module = sys.modules.get(name)
        if module is not None:
            action(module)


def load_sending() -> None:
    """Import what sending needs: too much for `init()`, but little next to a provider's library."""
    from tallystick.sending import transport  # noqa: F401


def _hook_module(module: ModuleType) -> None:
    load_sending()
    library, _, name = module.__name__.partition(".")
    for class_name, method, wrap in _POINTS[name]:
        try:
            owner = vars(module)[class_name]
            _hook(owner, method, functools.partial(wrap, library))
            if method == "request":
                _hook_overrides(owner, functools.partial(wrap, library, is_outer=True))
        except Exception:  # moved or renamed: its calls are not counted
            if name != _OPTIONAL:
                note_unhooked(f"{module.__name__}.{class_name}.{method}")


def _hook_elsewhere(module: ModuleType) -> None:
    load_sending()
    hooks = importlib.import_module(f"tallystick.hooks.{_ELSEWHERE[module.__name__]}")
    found = 0
    for class_name, methods, wrap in hooks.POINTS:
        try:
            owner = vars(module)[class_name]
            _hook(owner, next(name for name in methods if name in vars(owner)), wrap)
            found += 1
        except Exception:  # noqa: S112 - of another module or version
            continue
    if not found:
        note_unhooked(module.__name__)


def _hook_overrides(owner: type, wrap: Callable[[Any], Any]) -> None:
    """Hook the `request` of subclasses: tools put theirs there, in front of the original method."""
    kinds: list[type] = owner.__subclasses__()
    for kind in kinds:
        if "request" in vars(kind):
            _hook(kind, "request", wrap)
        _hook_overrides(kind, wrap)


def _hook(owner: type, method: str, wrap: Callable[[Any], Any]) -> None:
    original = vars(owner)[method]
    if not hasattr(original, _MARK):
        wrapper = wrap(_callable(original))
        setattr(wrapper, _MARK, original)
        setattr(owner, method, wrapper)


def _callable(original: Any) -> Any:
    """Return what is called with the object first; wrappers of other tools must be bound to it."""
    if type(original) is FunctionType:
        return original

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(self, type(self))(*args, **kwargs)

    return call
