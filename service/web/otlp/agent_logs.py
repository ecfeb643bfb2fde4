"""Log records of coding agents as calls, and which of them are rejected because of text.

Claude Code, Codex and Gemini CLI log an event for each answer of a model, with its counts. Their
other events are dropped, and so are those of other programs, unread. `AGENTS` is also a table in
docs/api/otlp.md.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from detectors.formats.adapters.calls import find_moment
from detectors.formats.adapters.labels import EVENT_ID
from detectors.formats.json_logs.usage.reader import Reading, read_usage
from service.models.imports.span_keys import digest
from service.web.otlp import attributes as names
from service.web.otlp.content import Switch, published_name
from service.web.otlp.spans import (
    OtlpSpan,
    SpanOrigin,
    SpanReading,
    Value,
    read_amount,
    read_number,
)
from service.web.otlp.values import AttributeReader

_NS_PER_MS: Final = 1_000_000
_NS_PER_US: Final = 1_000
_MOST_MS: Final = 10**9
# Who is signed in to a plan; without any of these, calls have an API key.
_SIGNED_IN: Final = ("user.email", "user.account_uuid", "user.account_id", "organization.id")
_BY_KEY: Final = ("gemini-api-key", "vertex-ai")
_IDENTITY: Final = re.compile(r"[A-Za-z0-9._:-]{1,120}")


class Agent(NamedTuple):
    """An agent: how its records are known, its event for an answer, and what can hold text.

    Records are known by the beginning of their scope's or their event's name. `counts` are the
    attributes of an answer, and their names in a usage object of `dialect`. The message of an error
    is none of the `texts`: no switch turns it off, and nothing reads it.
    """

    name: str
    scope: str
    events: str
    answer: Mapping[str, str]
    provider: str
    dialect: str | None
    counts: Mapping[str, str]
    texts: frozenset[str]
    switch: Switch


AGENTS: Final = (
    Agent(
        name="Claude Code",
        scope="com.anthropic.claude_code",
        events="claude_code.",
        answer={"event.name": "api_request"},
        provider="claude-code",
        dialect=None,
        counts={
            "input_tokens": "input_tokens",
            "output_tokens": "output_tokens",
            "cache_read_tokens": "cache_read_input_tokens",
            "cache_creation_tokens": "cache_creation_input_tokens",
        },
        texts=frozenset(
            ("prompt", "response", "body", "tool_input", "tool_parameters", "tool_output")
        ),
        switch=Switch(
            "Claude Code",
            "OTEL_LOG_USER_PROMPTS=0, OTEL_LOG_ASSISTANT_RESPONSES=0, OTEL_LOG_TOOL_DETAILS=0,"
            " OTEL_LOG_TOOL_CONTENT=0 and OTEL_LOG_RAW_API_BODIES=0",
        ),
    ),
    Agent(
        name="Codex",
        scope="",
        events="codex.",
        answer={"event.name": "codex.sse_event", "event.kind": "response.completed"},
        provider="codex",
        dialect=None,
        counts={
            "input_token_count": "input_tokens",
            "output_token_count": "output_tokens",
            "cached_token_count": "cached_input_tokens",
            "cache_write_token_count": "cache_write_input_tokens",
            "reasoning_token_count": "reasoning_output_tokens",
        },
        texts=frozenset(("prompt", "arguments", "output")),
        switch=Switch(
            "Codex", "log_user_prompt = false below [otel]", despite=("arguments", "output")
        ),
    ),
    Agent(
        name="Gemini CLI",
        scope="",
        events="gemini_cli.",
        answer={"event.name": "gemini_cli.api_response"},
        provider="google",
        dialect="gemini-cli",
        counts={
            "input_token_count": "input",
            "output_token_count": "output",
            "cached_content_token_count": "cached",
            "thoughts_token_count": "thoughts",
            "tool_token_count": "tool",
            "total_token_count": "total",
        },
        texts=frozenset(("prompt", "request_text", "response_text", "function_args")),
        switch=Switch("Gemini CLI", "GEMINI_TELEMETRY_LOG_PROMPTS=false"),
    ),
)
_READ: Final = frozenset(
    (
        *("event.name", "event.kind", "event.timestamp", "event.sequence", "model"),
        *(
            "session.id",
            "conversation.id",
            "request_id",
            "prompt_id",
            "duration_ms",
            "cost_usd",
            "speed",
        ),
        *("auth_type", *_SIGNED_IN, *(name for agent in AGENTS for name in agent.counts)),
    )
)


class LogReading(SpanReading):
    """What is known of a request of logs while its records are read."""

    def __init__(self, tag_attribute: str | None = None) -> None:
        super().__init__(tag_attribute)
        self._tag_attribute = tag_attribute
        self.unused = 0  # records that are no calls
        self.large = 0  # records that are larger than any without text, and not decoded

    def read(
        self,
        origin: SpanOrigin,
        time: int,
        attributes: Sequence[Any],
        reader: AttributeReader,
    ) -> "Answer | None":
        """Return the answer that a log record is of, if it is of one; note its text."""
        self.spend(len(attributes))
        values: dict[str, Value] = {}
        for each in attributes:
            if (each.key in _READ or each.key == self._tag_attribute) and each.value is not None:
                value = each.value
                values[each.key] = value.int_value or value.double_value or value.string_value or 0
        scope, event = origin.scope, str(values.get("event.name"))
        agent = next(
            (
                each
                for each in AGENTS
                if (each.scope and scope.startswith(each.scope)) or event.startswith(each.events)
            ),
            None,
        )
        if agent is None:
            self.unused += 1
            return None
        content = {
            published_name(each.key) or each.key
            for each in attributes
            if (each.key in agent.texts or published_name(each.key) is not None)
            and reader.holds_text(each.value, self)
        } | self._of_resource
        if content:
            count, known = self.rejected.setdefault(agent.switch, (0, set()))
            known |= content
            self.rejected[agent.switch] = count + 1, known
            return None
        is_answer = all(values.get(name) == value for name, value in agent.answer.items())
        if not is_answer or not agent.counts.keys() & values.keys():
            self.unused += 1
            return None
        tag = values.get(self._tag_attribute or "")
        tags = {self._tag_attribute: tag} if self._tag_attribute and tag is not None else {}
        return Answer(agent, origin, time, values, tags)


class Answer(NamedTuple):
    """An event of an agent for an answer of a model."""

    agent: Agent
    origin: SpanOrigin
    time: int  # nanoseconds since 1970
    values: Mapping[str, Value]
    tags: Mapping[str, Value]  # the attribute that the account has chosen as the tag

    @property
    def billing(self) -> str | None:
        """Return what the event says of who pays; None where a plan is as likely as any."""
        kind = self.values.get("auth_type")
        if kind is not None:
            return "metered" if kind in _BY_KEY else "included"
        return None if any(name in self.values for name in _SIGNED_IN) else "metered"

    def read_usage(self) -> list[Reading]:
        usage: dict[str, Any] = {
            name: read_number(self.values[attribute])
            for attribute, name in self.agent.counts.items()
            if attribute in self.values
        }
        if self.values.get("speed") == "fast":
            usage["speed"] = "fast"
        found = read_usage(usage, dialect=self.agent.dialect, model=self.values.get("model"))
        cost = self.values.get("cost_usd")
        if isinstance(cost, str):
            cost = read_amount(cost) or None
        if found and cost is not None:
            found[0].reported_usd = float(cost)
        return found

    def as_span(self) -> OtlpSpan:
        """Return the call as a span whose ID is the same however often the event is sent."""
        values = self.values
        at = find_moment(values.get("event.timestamp"))
        sent = int(at.timestamp() * 1e6 + 0.5) * _NS_PER_US if at is not None else 0
        end = self.time or sent
        took = min(read_number(values.get("duration_ms")), _MOST_MS) * _NS_PER_MS
        session = values.get("session.id") or values.get("conversation.id") or ""
        asked = values.get("request_id")
        if not (isinstance(asked, str) and _IDENTITY.fullmatch(asked)):
            parts = (values.get(name) for name in ("prompt_id", "event.sequence", "model"))
            counts = (values.get(name) for name in self.agent.counts)
            seed = "\0".join(map(str, (self.agent.name, session, end, *parts, *counts)))
            asked = digest(seed).hex() + digest(f"{seed}\0").hex()
        name = f"{EVENT_ID}{asked}"
        labels = {
            **self.tags,
            names.OPERATION[0]: "chat",
            names.PROVIDER[0]: self.agent.provider,
            names.MODEL[0]: values.get("model", ""),
            names.SESSION[0]: session,
            names.RESPONSE_ID[0]: name,
        }
        trace = digest(name) + digest(f"{name}\0")
        start = max(end - took, 0)
        return OtlpSpan(
            self.origin, trace, digest(f"span {name}"), b"", start, end, False, labels, {}
        )
