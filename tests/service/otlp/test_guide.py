"""The tables of docs/api/otlp.md are those of the code."""

from pathlib import Path

from service.web.otlp.attributes import COUNTS, TEXTS
from service.web.otlp.caching import RULES as INPUTS
from service.web.otlp.content import NO_SWITCH, RULES, describe, published_name
from tests.service.otlp.recording import OFF

GUIDE = (Path(__file__).parents[3] / "docs" / "api" / "otlp.md").read_text()


def test_every_rejected_attribute_stands_beside_the_switch_that_turns_it_off() -> None:
    for rule in RULES:
        names = ", ".join(f"`{name}`" for name in rule.names)
        switch = rule.switch or f"none: {NO_SWITCH}"
        assert f"| {rule.of} | {switch} | {names} |\n" in GUIDE


def test_every_known_kind_of_input_stands_with_its_source() -> None:
    for rule in INPUTS:
        since = ".".join(map(str, rule.since)) or "any"
        assert f"| `{rule.scope}` | {since} | {rule.input.value} | {rule.source} |\n" in GUIDE


def test_the_recorded_exports_were_made_with_the_switches_of_the_guide() -> None:
    for name, value in OFF.items():
        assert name == "CONTENT" or f"{name}={value}" in GUIDE


def test_no_attribute_is_both_read_and_rejected() -> None:
    assert [name for name in (*COUNTS, *TEXTS) if published_name(name)] == []


def test_a_rejection_is_one_sentence_and_says_what_to_do_without_a_switch() -> None:
    message = describe(["request_data"])
    assert message == (
        "The spans hold text in request_data, so we stored nothing: drop the attributes in an"
        " OpenTelemetry Collector."
    )
