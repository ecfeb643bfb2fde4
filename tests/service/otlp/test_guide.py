"""The tables of docs/api/otlp.md are those of the code."""

from pathlib import Path

import pytest

from service.models.imports.span_batches import CARRIED_FOR
from service.operations.connections.agent_totals import AGENTS as NAMED_AGENTS
from service.operations.maintenance.span_imports import MOST_CARRIED
from service.web.otlp.agent_logs import AGENTS
from service.web.otlp.agent_metrics import COUNTERS
from service.web.otlp.answers import describe
from service.web.otlp.attributes import COUNTS, TEXTS
from service.web.otlp.caching import RULES as INPUTS
from service.web.otlp.content import COLLECTOR, NAMES, SWITCHES, find_switch, published_name
from tests.service.otlp.recording import OFF
from tests.service.otlp.requests import CHAT, as_protobuf, document, read, span

GUIDE = (Path(__file__).parents[3] / "docs" / "api" / "otlp.md").read_text()


def test_scopes_attributes_and_inputs_stand_in_the_guide() -> None:
    for scope, switch, _ in SWITCHES:
        assert f"| `{scope}` | {switch or f'none: {COLLECTOR}'} |\n" in GUIDE
    # Every rejected attribute is listed.
    for of, names in NAMES.items():
        assert f"| {of} | {', '.join(f'`{name}`' for name in names)} |\n" in GUIDE
    # Every known kind of input stands with its source.
    for rule in INPUTS:
        since = ".".join(map(str, rule.since)) or "any"
        assert f"| `{rule.scope}` | {since} | {rule.input.value} | {rule.source} |\n" in GUIDE
    # The recorded exports were made with the switches of the guide.
    for name, value in OFF.items():
        assert name == "CONTENT" or f"{name}={value}" in GUIDE
    # The guide says how long spans are compared.
    hours = CARRIED_FOR.total_seconds() / 3_600
    assert f"an account's last {MOST_CARRIED:,} calls for {hours:.0f} hours" in GUIDE
    # No attribute is both read and rejected.
    assert [name for name in (*COUNTS, *TEXTS) if published_name(name)] == []


@pytest.mark.parametrize(
    ("scope", "switch"),
    [
        ("opentelemetry.instrumentation.openai.v1", "TRACELOOP_TRACE_CONTENT=false"),
        (
            "opentelemetry.instrumentation.genai.openai",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=false",
        ),
        ("pydantic-ai", "InstrumentationSettings(include_content=False)"),
        ("logfire.openai", ""),
        ("mine", None),
        ("ainy", None),
    ],
)
def test_the_longest_scope_that_fits_says_the_switch(scope: str, switch: str | None) -> None:
    found = find_switch(scope)
    assert (found and found.switch) == switch


def test_a_rejection_is_one_sentence_and_says_what_to_do_without_a_switch() -> None:
    text = span({**CHAT, "request_data": "canary"})
    (message,) = describe(read(as_protobuf(document(text, scope="logfire.openai"))))
    assert message == (
        "1 span of logfire was rejected because of text in request_data: drop the attributes in an"
        " OpenTelemetry Collector."
    )


def test_the_guide_lists_every_agent_with_its_event_and_switch() -> None:
    guide, _, totals = GUIDE.partition("### Totals of agents")
    rows = [line.split(" | ") for line in guide.splitlines() if line.startswith("| ")]
    for agent in AGENTS:
        (row,) = [row for row in rows if row[0] == f"| {agent.name}"]
        assert all(f"`{value}`" in row[1] for value in agent.answer.values())
        assert row[-1] == f"{agent.switch.switch} |"
    for metric, counter in COUNTERS.items():
        (line,) = [line for line in totals.splitlines() if line.startswith("| ") and metric in line]
        assert line.startswith(f"| {NAMED_AGENTS[counter.agent][0]} | `")
