"""The change that a finding asks for, as code for the provider's own Python library."""

from collections.abc import Mapping
from typing import Final, Protocol

from detectors.wording.caching_code import quote_model, write_code

# By whether the model is Claude's; any other is called as OpenAI's.
_CALLS: Final[Mapping[bool, str]] = {
    True: "client.messages.create",
    False: "client.chat.completions.create",
}
_LIMITS: Final[Mapping[bool, str]] = {True: "max_tokens", False: "max_completion_tokens"}
# Anthropic's library requires a limit.
_REQUIRED: Final[Mapping[bool, str]] = {True: "max_tokens=1024, ", False: ""}

_CHEAPER: Final = """\
# Try it on a share of the calls, and compare the answers before you move all of them.
{call}(
    model={suggested},  # was {model}
    {required}messages=messages,
)"""
_ONCE: Final = """\
# The same request again is answered from your own cache.
key = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
answer = answers.get(key)
if answer is None:
    answer = {call}(model={model}, {required}messages=messages)
    answers.set(key, answer, expire=300)"""
_SHORTER: Final = """\
# Keep what the task needs: the instructions, and the latest turns.
{call}(
    model={model},
    {required}messages=[instructions, *turns[-10:]],
)"""
_LIMIT: Final = """\
# Above the longest answer that you need, and no further.
{call}(
    model={model},
    {limit}=LONGEST_ANSWER,
    messages=messages,
)"""
_BATCH: Final = """\
# Several items in one call, with one set of instructions.
for some in itertools.batched(items, 10):
    {call}(
        model={model},
        {required}messages=[instructions, ask_for_all(some)],
    )"""
_BY_DETECTOR: Final[Mapping[str, str]] = {
    "d1_model_overkill": _CHEAPER,
    "d3_context_bloat": _SHORTER,
    "d4_duplicate_calls": _ONCE,
    "d5_max_tokens_misfit": _LIMIT,
    "d6_chatty_loop": _BATCH,
}


class Fixable(Protocol):
    """A finding of an account or of a report."""

    @property
    def detector(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def model(self) -> str: ...


def write_fix(found: Fixable, suggested: str = "") -> str:
    """Return the change as code; empty where there is none for its kind.

    `suggested` is the cheaper model to try, if there is one.
    """
    code = _BY_DETECTOR.get(found.detector)
    if code is None or (code is _CHEAPER and not suggested):
        return write_code(found)
    is_claude = "claude" in found.model.lower()
    return code.format(
        call=_CALLS[is_claude],
        limit=_LIMITS[is_claude],
        required=_REQUIRED[is_claude],
        model=quote_model(found.model),
        suggested=quote_model(suggested),
    )
