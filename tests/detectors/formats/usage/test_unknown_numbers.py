"""Any number in a usage object that we don't know is said by every door; a text never is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import detectors
from detectors import ColumnMapping
from detectors.formats import read_chunks
from detectors.formats.columns import UNKNOWN
from detectors.formats.json_logs.usage.reader import names_of, read_usage
from detectors.frames.usage_log import from_chunks
from detectors.scrub.scrubber import Scrubber
from detectors.wording.quality import warnings
from tests.cases import each_case
from tests.detectors.formats.usage.doors import (
    CANARY,
    Case,
    attributes_of,
    corpus,
    doors_of,
    line_of,
    raw_line_of,
    scrubbed,
    through_client,
)
from tests.service.otlp.requests import as_protobuf, document, span
from tests.service.otlp.requests import read as read_spans

EXTRA: Final = "hologram_units"
_USAGES: Final = ("usage", "usageMetadata", "tool_usage", "svg_usage")
# What is written twice: nothing below these is read.
_COPIES: Final = ("cost_details",)


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a usage, the inner ones too."""
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in _COPIES:
                yield from objects_in(inner)
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item)


def changed(case: Case) -> Iterator[Case]:
    """Yield the case with one more number, at each depth of its usage."""
    answer = case["answer"]
    places = sum(1 for name in _USAGES for _ in objects_in(answer.get(name)))
    for place in range(places):
        other = copy.deepcopy(case)
        found = [each for name in _USAGES for each in objects_in(other["answer"].get(name))]
        found[place][EXTRA] = 41_200
        found[place][f"Dear {CANARY}, this is no name"] = 3
        yield other


def said_by(case: Case, door: str) -> str:
    """Return the names that a door says it doesn't know."""
    if door == "client":
        through_client(case)
        return " ".join(case["said"])
    if door == "otlp":
        return " ".join(read_spans(as_protobuf(document(span(attributes_of(case))))).unknown)
    text = line_of(case) if door == "audit" else scrubbed(raw_line_of(case))
    chunks = list(read_chunks(BytesIO(text)))
    return " ".join(" ".join(chunk.columns.get(UNKNOWN, ())) for chunk in chunks)


CASES: Final = [case for case in corpus() if "events" not in case]


@each_case("case", CASES)
def test_an_unknown_number_at_any_depth_is_said_by_every_door(case: Case) -> None:
    for other in changed(case):
        for door in doors_of(case):
            if door == "audit":  # where a key that is no name may be a text
                other = copy.deepcopy(other)
                for name in _USAGES:
                    for each in objects_in(other["answer"].get(name)):
                        each.pop(f"Dear {CANARY}, this is no name", None)
            said = said_by(other, door)
            assert EXTRA in said, (door, other["answer"])
            assert CANARY not in said


@each_case("case", CASES)
def test_no_text_of_a_usage_survives(case: Case) -> None:
    other = copy.deepcopy(case)
    for name in _USAGES:
        for each in objects_in(other["answer"].get(name)):
            each["note"] = f"{CANARY} a text"
    if "scrub" in doors_of(case):
        assert CANARY.encode() not in scrubbed(raw_line_of(other))
    for usage in (other["answer"].get("usage"), other["answer"].get("usageMetadata")):
        for reading in read_usage(usage, model=case["model"], beside=other["answer"]):
            assert CANARY not in f"{reading.fields()}{reading.units}{reading.unknown}"


def test_a_report_names_the_field_and_the_largest_number() -> None:
    lines = [
        {
            "ts": 1_782_000_000 + number,
            "model": "gpt-5-mini",
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 1,
                "prompt_tokens_details": {"hologram_tokens": number},
            },
        }
        for number in range(41_100, 41_201, 10)
    ]
    log = b"\n".join(json.dumps(line).encode() for line in lines)
    for text in (log, scrubbed(log)):
        report = detectors.audit(from_chunks(list(read_chunks(BytesIO(text)))))
        assert report.audit.records == len(lines)
        assert [each for each in warnings(report) if "usage field" in each] == [
            "11 calls have a usage field that we don't know:"
            " prompt_tokens_details.hologram_tokens (largest 41,200)."
            " Their cost may be too low."
        ]
        (field,) = json.loads(report.to_json())["data_quality"]["unknown_fields"]
        assert field == {
            "name": "prompt_tokens_details.hologram_tokens",
            "calls": 11,
            "largest": 41_200,
        }


def test_a_label_that_is_no_name_is_not_shown() -> None:
    counts = {"prompt_tokens": 1, "completion_tokens": 1}
    line = {
        **{"ts": 1_782_000_000, "model": "gpt-5-mini", "usage": counts},
        **{"unknown_fields": "<b>CANARY</b>", "unknown_largest": 3},
    }
    report = detectors.audit(from_chunks(list(read_chunks(BytesIO(json.dumps(line).encode())))))
    said = " ".join(warnings(report))
    assert CANARY not in said
    assert "whose name we don't know" in said


def test_names_fit_a_label() -> None:
    names = names_of({f"details.number_{each}": 1 for each in range(99)})
    assert names is not None
    assert 150 < len(names) <= 200
    assert names_of({}) is None


def test_a_nested_usage_and_a_large_one_are_read_in_bounded_memory() -> None:
    usage: dict[str, Any] = {"prompt_tokens": 1, "completion_tokens": 1}
    inner = usage
    for _ in range(500):
        inner["deeper"] = {"count": 1}
        inner = inner["deeper"]
    usage.update({f"number_{each}": each for each in range(1, 10_000)})
    (reading,) = read_usage(usage)
    assert (reading.prompt, reading.completion) == (1, 1)
    assert len(reading.unknown) == 16


def _line(number: int, **usage: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    answer = {"id": f"c{number}", "object": "chat.completion", "model": "gpt-5.4"}
    return {"ts": f"2026-11-01T12:00:0{number}Z", **answer, "usage": counts | usage}


def _unknown_in(*lines: dict[str, Any]) -> list[tuple[str, int, int]]:
    report = detectors.audit(BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert report.data_quality
    fields = report.data_quality.unknown_fields or ()
    return [(each.name, each.calls, each.largest) for each in fields]


def test_every_name_of_a_day_is_said() -> None:
    lines = (_line(1, b_tokens=7), _line(2, a_tokens=5), _line(3, a_tokens=9, c={"d_tokens": 1}))
    assert _unknown_in(*lines, _line(4)) == [
        *(("a_tokens", 2, 9), ("b_tokens", 1, 7), ("c.d_tokens", 1, 9))
    ]


def test_a_number_below_any_depth_and_one_below_zero_are_said() -> None:
    deep: dict[str, Any] = {"a_tokens": 7}
    for _ in range(30):
        deep = {"more": deep}
    assert _unknown_in(_line(1, deep=deep)) == [("", 1, 0)]  # as a field that has no name
    assert _unknown_in(_line(2, a_tokens=-7)) == [("a_tokens", 1, 0)]


_CHAT: Final = {"object": "chat.completion", "model": "gpt-5.4", "ts": "2026-06-10T12:00:00Z"}
_COUNTS: Final = {"prompt_tokens": 1_000, "completion_tokens": 100}
_RECORD: Final = {"ts": _CHAT["ts"], "provider": "openai", "model": "gpt-5.4", **_COUNTS}


@each_case(("tier", "named"), [("ultrafast", ": ultrafast"), (f"Dear {CANARY}, hello", "")])
def test_a_tier_that_we_do_not_know_is_said_by_every_door_of_files(tier: str, named: str) -> None:
    said = [
        f"1 call is at a tier that we don't know{named}. It is priced as standard, possibly too "
        "low."
    ]
    chat = {**_CHAT, "service_tier": tier, "usage": _COUNTS}
    message = {"id": "msg_1", "type": "message", "model": "claude-opus-4-6", "ts": _CHAT["ts"]}
    usage = {"input_tokens": 10, "output_tokens": 5}
    lines = (
        chat,
        message | {"usage": usage | {"service_tier": tier}},
        message | {"usage": usage | {"speed": tier}},
        {"ts": _CHAT["ts"], "response": {n: v for n, v in chat.items() if n != "ts"}},
        _RECORD | {"service_tier": tier},
    )
    record = _RECORD | {"service_tier": tier.replace(",", "")}
    table = ",".join(record) + "\n" + ",".join(map(str, record.values()))
    mapped = Scrubber(ColumnMapping({"plan": "service_tier"}))
    texts = [table.encode()]
    texts += [b"".join(mapped.read(BytesIO(table.replace("service_tier", "plan").encode())))]
    for line in lines:
        text = json.dumps(line).encode()
        texts.append(scrubbed(text))
        assert CANARY.encode() not in texts[-1]
        if named or line in (chat, lines[-1]):  # elsewhere, a usage with a text is refused
            texts.append(text)
    logs = [detectors.read([record]), *(detectors.read(BytesIO(text)) for text in texts)]
    for report, text in zip(detectors.audit_many(logs), [b"", *texts], strict=True):
        assert report.audit.records == 1
        assert [each for each in warnings(report) if "tier" in each] == said, text


def test_a_tier_that_we_do_not_know_is_said_beside_unknown_numbers() -> None:
    line = _line(1, a_tokens=5) | {"service_tier": "scale"}
    assert _unknown_in(line) == [("a_tokens", 1, 5), ("service_tier.scale", 1, 5)]


def test_the_client_and_spans_say_a_tier_that_we_do_not_know() -> None:
    (case,) = (each for each in CASES if each["name"] == "openai-chat")
    case = {**case, "answer": case["answer"] | {"service_tier": "ultrafast"}}
    assert "service_tier.ultrafast" in said_by(case, "client")
    attributes = attributes_of(case) | {"gen_ai.openai.response.service_tier": "ultrafast"}
    requests = read_spans(as_protobuf(document(span(attributes))))
    assert requests.unknown == ["service_tier.ultrafast"]
    known = {**case, "answer": case["answer"] | {"service_tier": "default"}}
    assert said_by(known, "client") == ""


@each_case(("size", "named"), [("low", None), ("high", ": high"), (f"{CANARY}x", ": other")])
def test_a_search_context_that_costs_more_is_said(size: str, named: str | None) -> None:
    usage = _COUNTS | {"search_context_size": size, "num_search_queries": 1}
    line = _CHAT | {"model": "sonar", "provider": "perplexity", "usage": usage}
    for text in (json.dumps(line).encode(), scrubbed(json.dumps(line).encode())):
        report = detectors.audit(BytesIO(text))
        said = [each for each in warnings(report) if "search context" in each]
        assert said == (
            []
            if named is None
            else [
                f"1 call has a larger search context than the default{named}. We count the "
                "default's fee, so the cost may be too low."
            ]
        )
        assert float(report.audit.total_spend_usd) == 0.005 + 0.001 + 0.0001
