"""The detectors. Each module holds one, as expressions that run on every engine.

A new detector is a module here and its name in `_MODULES`. Everything that shows a report takes its
name, definition, thresholds, advice, formula and evidence columns from the module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from msgspec import defstruct

from detectors import contract
from detectors.rules.detector import Detector

_MODULES: Final = (
    "model_overkill",
    "missed_caching",
    "context_bloat",
    "duplicate_calls",
    "max_tokens_misfit",
    "chatty_loop",
)
DETECTORS: Final[tuple[Detector, ...]] = tuple(
    import_module(f"{__name__}.{module}").DETECTOR for module in _MODULES
)

if TYPE_CHECKING:
    from detectors.contract import Thresholds as Thresholds
else:
    Thresholds = defstruct(
        "Thresholds",
        [
            (name, tuple[int, ...] if isinstance(default, tuple) else type(default), default)
            for detector in DETECTORS
            for name, default in detector.thresholds.items()
        ],
        bases=(contract.Thresholds,),
        namespace={"__doc__": contract.Thresholds.__doc__},
        module=__name__,
        frozen=True,
        kw_only=True,
    )
