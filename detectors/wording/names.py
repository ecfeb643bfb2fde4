"""Display names of detectors, severities and confidences."""

from collections.abc import Iterable, Mapping
from typing import Final

from detectors.contract import Method

SEVERITY_WORDS: Final[Mapping[str, str]] = {"high": "High", "medium": "Medium", "low": "Low"}
CONFIDENCE_WORDS: Final[Mapping[str, str]] = {
    "VERIFIED": "follows from the billed counts",
    "ESTIMATED": "rests on the assumption stated in its fix",
    "INFORMATIONAL": "no savings are claimed",
}
# A report carries its detectors' names; those stored before these names were chosen carry others.
DETECTOR_NAMES: Final[Mapping[str, str]] = {
    "d1_model_overkill": "Oversized model",
    "d2_missed_caching": "Missed prompt caching",
    "d3_context_bloat": "Context bloat",
    "d4_duplicate_calls": "Duplicate calls",
    "d5_max_tokens_misfit": "max_tokens misfit",
    "d6_chatty_loop": "Unbatched calls",
}


def detector_name(detector: str, methods: Iterable[Method] = ()) -> str:
    """Return the display name of a detector; the methods of a report name those not listed here."""
    if detector in DETECTOR_NAMES:
        return DETECTOR_NAMES[detector]
    titles = {method.detector: method.title for method in methods}
    return titles.get(detector) or _from_id(detector)


def _from_id(detector: str) -> str:
    words = detector.partition("_")[2].replace("_", " ")
    return f"{words[:1].upper()}{words[1:]}" or detector
