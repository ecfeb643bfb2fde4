"""What coding agents log over OpenTelemetry: recorded from the real ones, with made-up answers.

`agents/*.json` are requests of Claude Code 2.1.197, Codex 0.171.0 and Gemini CLI 0.61.0, which
talked to a server that imitates their provider; `*-text.json` were recorded with text turned on,
and `*.jsonl` is the session that was written at the same time. Texts are cut.
"""

import json
import zlib
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import pytest
from flask.testing import FlaskClient
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from sqlalchemy import select
from sqlalchemy.orm import Session

import detectors
from detectors.agents.files import Mark, read_file
from detectors.agents.folders import File, Source
from detectors.agents.ledger import Ledger
from detectors.formats.adapters.calls import Call, record_of
from detectors.report.account import merge_files
from service.models import SpanBatch
from service.web.otlp.agent_logs import AGENTS
from service.web.otlp.answers import describe
from service.web.otlp.requests import LOG_READERS, Calls, read_log_request
from tests.cases import each_case
from tests.service.otlp.requests import JSON, PROTOBUF, attribute
from tests.service.support.scenes import Tenant

ROOM: Final = Path(__file__).parent / "agents"
COUNTS: Final = (
    *("provider", "model", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("cache_write_tokens", "reasoning_tokens", "billing"),
)
# The answers of the imitated providers.
ANSWERS: Final[dict[str, tuple[Any, ...]]] = {
    "claude-code": ("claude-code", "claude-sonnet-4-6", 13_012, 37, 9_000, 4_000, None, "metered"),
    "codex": ("codex", "gpt-5.4", 5_000, 70, 3_000, None, 30, "metered"),
    "gemini-cli": ("google", "gemini-2.5-pro", 6_000, 80, 4_000, None, 30, "metered"),
}
TEXTS: Final = {
    "claude-code": (3, "body, prompt, response", "OTEL_LOG_USER_PROMPTS=0"),
    "codex": (1, "prompt", "log_user_prompt = false"),
    "gemini-cli": (3, "prompt, request_text, response_text", "GEMINI_TELEMETRY_LOG_PROMPTS=false"),
}


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOM / f"{name}.json").read_text())
    return found


def encode(document: dict[str, Any], kind: str) -> bytes:
    if kind == JSON:
        return json.dumps(document).encode()
    request = ParseDict(document, ExportLogsServiceRequest(), ignore_unknown_fields=True)
    return bytes(request.SerializeToString())


def read(document: dict[str, Any], kind: str = JSON) -> Calls:
    return read_log_request(encode(document, kind), LOG_READERS[kind])


def records(calls: Calls) -> list[dict[str, Any]]:
    lines = zlib.decompress(calls.lines).splitlines() if calls.lines else []
    return [json.loads(line) for line in lines]


@each_case("kind", [JSON, PROTOBUF])
@each_case("name", ANSWERS)
def test_an_agents_answer_is_a_call(name: str, kind: str) -> None:
    calls = read(recorded(name), kind)
    [record] = records(calls)
    assert tuple(map(record.get, COUNTS)) == ANSWERS[name]
    assert record["session_id"] in (ROOM / f"{name}.jsonl").read_text()
    assert "unknown_fields" not in record
    assert list(describe(calls)) == []
    # Sent again, it is the same call.
    assert read(recorded(name), kind).keys == calls.keys


@each_case("kind", [JSON, PROTOBUF])
@each_case("name", TEXTS)
def test_records_with_text_are_rejected_alone_with_their_switch(name: str, kind: str) -> None:
    calls = read(recorded(f"{name}-text"), kind)
    [(switch, (count, _))] = calls.texts.items()
    rejected, names, advice = TEXTS[name]
    said = " ".join(describe(calls))
    assert count == rejected
    assert f"because of text in {names}: turn it off with {advice}" in said
    assert switch in [agent.switch for agent in AGENTS]
    # Only Gemini CLI has the answer in the event that has its counts.
    assert len(records(calls)) == (name != "gemini-cli")
    assert b"CANARY" not in zlib.decompress(calls.lines or zlib.compress(b"")) + said.encode()


def first_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the attributes of the log record that has the counts."""
    for resource in document["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            for log in scope["logRecords"]:
                names = {each["key"] for each in log["attributes"]}
                if names & {"input_tokens", "input_token_count"}:
                    found: list[dict[str, Any]] = log["attributes"]
                    return found
    raise AssertionError("no answer")


@each_case(
    ("name", "added", "billing"),
    [
        ("claude-code", {"user.email": "dev@example.com"}, None),
        ("claude-code", {"organization.id": "org_1"}, None),
        ("codex", {"user.account_id": "acct_1"}, None),
        ("gemini-cli", {"auth_type": "oauth-personal"}, "included"),
    ],
)
def test_who_is_signed_in_is_not_billed_by_key(
    name: str, added: dict[str, str], billing: str | None
) -> None:
    document = recorded(name)
    attributes = first_of(document)
    attributes[:] = [each for each in attributes if each["key"] not in added]
    attributes += [attribute(*each) for each in added.items()]
    [record] = records(read(document))
    assert record.get("billing") == billing
    assert not any(value in json.dumps(record) for value in added.values())


@each_case("kind", [JSON, PROTOBUF])
def test_the_attribute_of_the_account_is_the_tag(kind: str) -> None:
    document = recorded("codex")
    document["resourceLogs"][0]["resource"]["attributes"].append(attribute("team", "boats"))
    tags = []
    for value in (None, "tides"):
        if value is not None:
            first_of(document).append(attribute("team", value))
        [record] = records(read_log_request(encode(document, kind), LOG_READERS[kind], "team"))
        tags.append(record["tag"])
    assert tags == ["boats", "tides"]


@each_case("kind", [JSON, PROTOBUF])
@each_case(
    ("name", "attributes"),
    [
        ("claude-code", {"event.name": "api_error", "error": "CANARY is overloaded."}),
        ("codex", {"event.name": "codex.sse_event", "error.message": "The CANARY is closed."}),
        ("gemini-cli", {"event.name": "gemini_cli.api_error", "error_message": "No CANARY."}),
    ],
)
def test_a_failure_is_no_leak(name: str, attributes: dict[str, str], kind: str) -> None:
    document = recorded(name)
    before = read(document, kind)
    logs = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    logs.append(
        {"timeUnixNano": "1", "attributes": [attribute(*each) for each in attributes.items()]}
    )
    calls = read(document, kind)
    assert (calls.calls, calls.texts, calls.unused) == (1, {}, before.unused + 1)
    assert "CANARY" not in " ".join(describe(calls))
    assert b"CANARY" not in zlib.decompress(calls.lines)


@each_case("kind", [JSON, PROTOBUF])
def test_text_of_a_resource_is_held_against_its_records(kind: str) -> None:
    document = recorded("codex")
    resource = document["resourceLogs"][0]["resource"]
    resource["attributes"].append(attribute("gen_ai.input.messages", "CANARY likes boats."))
    document["resourceLogs"] += recorded("claude-code")["resourceLogs"]
    calls = read(document, kind)
    assert [record["provider"] for record in records(calls)] == ["claude-code"]
    assert [names for _, names in calls.texts.values()] == [{"gen_ai.input.messages"}]


def test_a_cost_that_is_a_text_is_read_and_fast_mode_is_a_tier() -> None:
    for name, value, field, expected in (
        ("cost_usd", "0.125", "reported_usd", 0.125),
        ("cost_usd", "free", "reported_usd", None),
        ("speed", "fast", "service_tier", "fast"),
    ):
        document = recorded("claude-code")
        attributes = first_of(document)
        attributes[:] = [each for each in attributes if each["key"] != name]
        attributes.append(attribute(name, value))
        [record] = records(read(document))
        assert record.get(field) == expected, value


@each_case("kind", [JSON, PROTOBUF])
def test_a_record_that_is_too_large_is_rejected_undecoded(kind: str) -> None:
    document = recorded("codex")
    first_of(document).append(attribute("extra", "x" * 70_000))
    calls = read(document, kind)
    assert (calls.calls, calls.large) == (0, 1)
    assert "1 log record larger than 64 KiB was rejected" in " ".join(describe(calls))


@each_case("kind", [JSON, PROTOBUF])
def test_logs_of_other_programs_are_dropped_unread(kind: str) -> None:
    log = {"timeUnixNano": "1", "attributes": [attribute("prompt", "CANARY")]}
    scope = {"scope": {"name": "app"}, "logRecords": [log]}
    calls = read({"resourceLogs": [{"resource": {}, "scopeLogs": [scope]}]}, kind)
    assert (calls.calls, calls.unused, calls.texts) == (0, 1, {})
    [said] = describe(calls)
    assert "1 log record isn't a model's answer and was ignored." in said


@each_case("name", ANSWERS)
def test_a_session_file_and_an_event_are_one_call(name: str) -> None:
    [event] = records(read(recorded(name)))
    path = ROOM / f"{name}.jsonl"
    source = Source(name, ROOM, name.replace("-", "_"))
    ledger = Ledger(":memory:")
    stat = path.stat()
    ledger.add([read_file(File(str(path), source, stat.st_size, 0, 0), Mark())])
    [(body,)] = ledger.database.execute("SELECT body FROM calls").fetchall()
    call = record_of(msgspec.msgpack.decode(body, type=Call))
    of_file = {k: v for k, v in msgspec.to_builtins(call).items() if v not in (None, "")}
    frames = [
        detectors.read([each]).frame.with_columns(pl.lit(str(number)).alias("import_id"))
        for number, each in enumerate((event, of_file))
    ]
    for order in (frames, frames[::-1]):
        [file] = merge_files(order, months_before=date(2000, 1, 1))
        assert file.frame["request_id"].to_list() == [of_file["request_id"]]
        assert file.duplicates == 1


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_the_endpoint_stores_calls_and_says_what_it_rejects(
    client: FlaskClient, tenant: Tenant, db_session: Session, kind: str
) -> None:
    headers = {**tenant.writes, "Content-Type": kind}
    for name in ("claude-code-text", "gemini-cli"):
        answer = client.post("/otlp/v1/logs", data=encode(recorded(name), kind), headers=headers)
        assert answer.status_code == 200
        if name == "claude-code-text" and kind == JSON:
            assert answer.get_json()["partialSuccess"]["rejectedLogRecords"] == "3"
        elif name == "claude-code-text":
            said = ExportLogsServiceResponse.FromString(answer.data).partial_success
            assert said.rejected_log_records == 3
    rows = db_session.scalars(select(SpanBatch)).all()
    stored = b"".join(zlib.decompress(row.lines) for row in rows)
    assert [json.loads(line)["provider"] for line in stored.splitlines()] == [
        "claude-code",
        "google",
    ]
    assert b"CANARY" not in stored
    assert client.post("/otlp/v1/logs", data=b"\xff", headers=headers).status_code == 400
