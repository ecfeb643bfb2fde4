"""Hooks into the model providers' libraries: three methods each, wrapped on their classes.

A wrapper never stops a call. Each is installed separately, so if a library moves one method, the
others still work.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, Callable

from tallystick.capture import note_fault, note_unhooked
from tallystick.hooks import answers, requests, streams

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
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(self, type(self))(*args, **kwargs)

    # What is called gets the object first; wrappers of other tools must be bound to it.
    wrapper = wrap(original if type(original) is FunctionType else bound)
    setattr(wrapper, _MARK, original)
    setattr(owner, method, wrapper)


_Action = Callable[[ModuleType], None]


def when_imported(actions: Mapping[str, _Action]) -> None:
    """Run an action on each of these modules, at every import or reload of it."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            finder.actions.update(actions)
            return
    sys.meta_path.insert(0, _Finder(actions))


class _Finder(MetaPathFinder):
    """Delegate to the other finders and wrap the loader they find."""

    def __init__(self, actions: Mapping[str, _Action]) -> None:
        self.actions = dict(actions)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        try:
            action = self.actions.get(fullname)
            if action is None:
                return None
            for finder in sys.meta_path:
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(fullname, path, target) if find else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _NotifyingLoader(spec.loader, action)
                    return spec
        except Exception:
            return None  # the next finder is asked as if we were not there
        return None


class _NotifyingLoader(Loader):
    """Load with the original loader, then run the action; leaves no trace in the module."""

    def __init__(self, loader: Any, action: _Action) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            module.__loader__ = self._loader
            if module.__spec__ is not None:
                module.__spec__.loader = self._loader
        except Exception:
            note_fault()
        self._loader.exec_module(module)
        try:
            self._action(module)
        except Exception:
            note_fault()
