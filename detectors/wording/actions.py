"""What to change about a finding, in one line, how much work that is, and what is only to check."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from detectors.contract import Finding, Method
from detectors.wording.figures import counted
from detectors.wording.impact import has_savings, is_priced
from detectors.wording.labels import inert, shortened
from detectors.wording.names import detector_name

_MINUTES, _HOUR, _DAY = "minutes", "about an hour", "about a day"
_EVALUATION: Final = "evaluate first"
_LONGEST_LABEL: Final = 80
CHECKS_HEADING: Final = "Worth checking"


class _Change(NamedTuple):
    """What to do in general, on a route, which is `{}`, and how long that takes."""

    general: str
    on_route: str
    effort: str


# By detector and kind.
_CHANGES: Final[Mapping[tuple[str, str], _Change]] = {
    ("d1_model_overkill", "short_answers"): _Change(
        "Try a cheaper model", "Try a cheaper model on {}", _EVALUATION
    ),
    ("d1_model_overkill", "legacy_model"): _Change(
        "Try the model that replaces it", "Try the model that replaces that of {}", _EVALUATION
    ),
    ("d2_missed_caching", "uncached_prefix"): _Change(
        "Cache the repeated start of prompts", "Cache the repeated start of {} prompts", _HOUR
    ),
    ("d2_missed_caching", "short_lifetime"): _Change(
        "Use the one-hour cache", "Use the one-hour cache on {}", _MINUTES
    ),
    ("d2_missed_caching", "unread_writes"): _Change(
        "Stop writing to the cache what is rarely read",
        "Stop {} from writing to the cache what is rarely read",
        _MINUTES,
    ),
    ("d3_context_bloat", "outgrown"): _Change(
        "Shorten the longest prompts", "Shorten the longest prompts of {}", _DAY
    ),
    ("d4_duplicate_calls", "same_prompt"): _Change(
        "Stop sending the same call again", "Stop {} from sending the same call again", _HOUR
    ),
    ("d4_duplicate_calls", "same_shape"): _Change(
        "Stop sending the same call again", "Stop {} from sending the same call again", _HOUR
    ),
    ("d5_max_tokens_misfit", "truncated"): _Change(
        "Raise max_tokens, or request shorter answers",
        "Raise max_tokens on {}, or request shorter answers",
        _MINUTES,
    ),
    ("d6_chatty_loop", "hashed"): _Change(
        "Send several items per request", "Send several items per request on {}", _DAY
    ),
    ("provider_totals", "replaced_model"): _Change(
        "Try the model that replaces it", "Try the model that replaces that of {}", _EVALUATION
    ),
    ("provider_totals", "unread_writes"): _Change(
        "Stop writing to the cache what is rarely read",
        "Stop {} from writing to the cache what is rarely read",
        _MINUTES,
    ),
    ("provider_totals", "batch_like_key"): _Change(
        "Use the batch tier", "Use the batch tier for {}", _DAY
    ),
}
# Of findings that claim no savings.
_CHECKS: Final[Mapping[tuple[str, str], str]] = {
    ("d2_missed_caching", "unhashed_prefix"): "Send prefix_hash to check caching",
    ("d3_context_bloat", "large_prompts"): "Check whether prompts can be shorter",
    ("d4_duplicate_calls", "same_prompt"): "Check that repeated calls are intended",
    ("d5_max_tokens_misfit", "truncated"): "Check max_tokens",
    ("d5_max_tokens_misfit", "oversized_cap"): "Lower max_tokens",
    ("d6_chatty_loop", "unhashed"): "Send prefix_hash to check batching",
}


class Titled(Protocol):
    """A finding of a report or of an account."""

    @property
    def detector(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def route(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def suggested_model(self) -> str | None: ...
    @property
    def confidence(self) -> str: ...


class Title(NamedTuple):
    """What to do about a finding: the words around its route, which may be empty."""

    before: str
    route: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.route}{self.after}"


def title(finding: Titled, methods: Iterable[Method] = ()) -> Title:
    """Return what to do as the title of a finding, with its labels as inert text.

    Stop *ticket-routing* from sending the same call again. A kind that is not known here has the
    name of its detector.
    """
    route = "" if finding.route == finding.model else shortened(finding.route, _LONGEST_LABEL)
    change = _CHANGES.get((finding.detector, finding.kind)) if is_priced(finding) else None
    if change is not None and route and not finding.suggested_model:
        before, _, after = change.on_route.partition("{}")
        return Title(before, route, after)
    words = action(finding, methods)
    if route:
        return Title(f"{words} on ", route)
    if finding.suggested_model:
        return Title(words)
    return Title(f"{words} in calls to {shortened(finding.model, _LONGEST_LABEL)}")


def action(finding: Titled, methods: Iterable[Method] = (), *, has_labels: bool = True) -> str:
    """Return what to change in general; the detector's name for kinds that are not known here.

    Without labels, the text has nothing from the log: the cheaper model is from our own list.
    """
    if finding.suggested_model:
        cheaper = f"Try {inert(finding.suggested_model)}"
        model = shortened(finding.model, _LONGEST_LABEL)
        return f"{cheaper} instead of {model}" if has_labels else cheaper
    key = (finding.detector, finding.kind)
    if not is_priced(finding):
        words = _CHECKS.get(key)
    else:
        words = _CHANGES[key].general if key in _CHANGES else None
    return words or detector_name(finding.detector, methods)


def effort(finding: Titled) -> str:
    """Return how long the change takes, by our experience; "" for kinds that are not known here."""
    change = _CHANGES.get((finding.detector, finding.kind))
    return change.effort if change and is_priced(finding) else ""


def how_long(finding: Titled) -> str:
    """Return the effort as a phrase: "Effort: about an hour", or "Evaluate first"."""
    words = effort(finding)
    if words == _EVALUATION:
        return words.capitalize()
    return f"Effort: {words}" if words else ""


def action_labels(finding: Finding) -> tuple[str, ...]:
    """Return the labels below the title: the model, unless the title names it."""
    is_named = finding.suggested_model or finding.route == finding.model
    return () if is_named else (finding.model,)


_Found = TypeVar("_Found", bound=Finding)


class Check(NamedTuple):
    """Findings of one kind that claim no savings, as one line."""

    words: str
    findings: Sequence[Finding]


def with_savings(findings: Iterable[_Found]) -> list[_Found]:
    """Return the findings with dollars, which are all that any count of findings counts."""
    return [each for each in findings if has_savings(each)]


def list_checks(findings: Iterable[Finding], methods: Iterable[Method] = ()) -> list[Check]:
    """Return the findings without dollars by kind: Check max_tokens on 20 routes."""
    kinds: dict[str, list[Finding]] = {}
    for each in findings:
        if not has_savings(each):
            kinds.setdefault(action(each, methods), []).append(each)
    return [
        Check(f"{words} on {counted(len({each.route for each in found}), 'route')}", found)
        for words, found in kinds.items()
    ]
