"""The six detectors. Each module holds one rule, as expressions that run on every engine."""

from typing import Final

from detectors.rules import (
    chatty_loop,
    context_bloat,
    duplicate_calls,
    max_tokens_misfit,
    missed_caching,
    model_overkill,
)
from detectors.rules.detector import Detector

DETECTORS: Final[tuple[Detector, ...]] = (
    model_overkill.DETECTOR,
    missed_caching.DETECTOR,
    context_bloat.DETECTOR,
    duplicate_calls.DETECTOR,
    max_tokens_misfit.DETECTOR,
    chatty_loop.DETECTOR,
)
