"""What to change about a finding, in one line; reports start with the most valuable of these."""

from collections.abc import Iterable, Mapping
from typing import Final

from detectors.contract import Finding, Method
from detectors.wording.impact import is_priced
from detectors.wording.labels import inert
from detectors.wording.names import detector_name

# By detector and kind.
_CHANGES: Final[Mapping[tuple[str, str], str]] = {
    ("d2_missed_caching", "uncached_prefix"): "Cache the repeated start of prompts",
    ("d2_missed_caching", "short_lifetime"): "Use the one-hour cache",
    ("d2_missed_caching", "unread_writes"): "Stop writing to the cache what is rarely read",
    ("d3_context_bloat", "outgrown"): "Shorten the longest prompts",
    ("d4_duplicate_calls", "same_prompt"): "Stop sending the same call again",
    ("d4_duplicate_calls", "same_shape"): "Stop sending the same call again",
    ("d5_max_tokens_misfit", "truncated"): "Raise max_tokens, or request shorter answers",
    ("d6_chatty_loop", "hashed"): "Send several items per request",
}
# Of findings that claim no savings.
_CHECKS: Final[Mapping[tuple[str, str], str]] = {
    ("d2_missed_caching", "unhashed_prefix"): "Send prefix_hash to find out what caching saves",
    ("d3_context_bloat", "large_prompts"): "Check whether prompts can be shorter",
    ("d4_duplicate_calls", "same_prompt"): "Check that repeated calls are intended",
    ("d5_max_tokens_misfit", "truncated"): "Check max_tokens",
    ("d5_max_tokens_misfit", "oversized_cap"): "Lower max_tokens",
    ("d6_chatty_loop", "unhashed"): "Send prefix_hash to find out what batching saves",
}


def action(finding: Finding, methods: Iterable[Method] = (), *, has_labels: bool = True) -> str:
    """Return what to change; the detector's name for kinds that are not known here.

    Without labels, the text has nothing from the log: the cheaper model is from our own list.
    """
    if finding.suggested_model:
        cheaper = f"Try {inert(finding.suggested_model)}"
        return f"{cheaper} instead of {inert(finding.model)}" if has_labels else cheaper
    known = _CHANGES if is_priced(finding) else _CHECKS
    words = known.get((finding.detector, finding.kind))
    return words or detector_name(finding.detector, methods)


def action_labels(finding: Finding) -> tuple[str, ...]:
    """Return the labels below the action: the route, and the model unless the action names it."""
    if finding.suggested_model or finding.route == finding.model:
        return (finding.route,)
    return (finding.route, finding.model)
