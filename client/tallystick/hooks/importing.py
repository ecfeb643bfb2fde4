"""Run an action right after a module is imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable

from tallystick.capture import note_fault

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
            return None if action is None else self._find(action, fullname, path, target)
        except Exception:
            return None  # the next finder is asked as if we were not there

    def _find(self, action: _Action, *wanted: Any) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(*wanted) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _NotifyingLoader(spec.loader, action)
                return spec
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
