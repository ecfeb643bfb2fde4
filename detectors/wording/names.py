"""What detectors, severities and confidences are called where a report is printed."""

from collections.abc import Mapping
from typing import Final

SEVERITY_WORDS: Final[Mapping[str, str]] = {"high": "High", "medium": "Medium", "low": "Low"}
CONFIDENCE_WORDS: Final[Mapping[str, str]] = {
    "VERIFIED": "follows from the billed counts",
    "ESTIMATED": "rests on the assumption that its fix states",
    "INFORMATIONAL": "no dollars are claimed",
}
DETECTOR_NAMES: Final[Mapping[str, str]] = {
    "d1_model_overkill": "Short answers from a flagship model",
    "d2_missed_caching": "Missed prompt caching",
    "d3_context_bloat": "Oversized prompts",
    "d4_duplicate_calls": "The same call again, within seconds",
    "d5_max_tokens_misfit": "Ill-fitting answer limit",
    "d6_chatty_loop": "One item at a time",
}
