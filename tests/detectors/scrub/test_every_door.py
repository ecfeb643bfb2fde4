"""Whatever carries usage is read by `scrub` and `audit`, or they say what it is and what to do."""

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any, Final

import pytest
import zstandard

import detectors
from detectors.errors import DetectorError
from detectors.formats import decode_batch, read_chunks
from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.csv_logs.proposals import explain_error
from detectors.formats.records.batches import V1, V2
from detectors.scrub.scrubber import Scrubber, Summary
from service.errors import BadRequestError
from service.web.otlp.answers import describe
from tests.cases import each_case
from tests.detectors.formats.adapters.exports import EXPORTS
from tests.detectors.formats.usage.doors import attributes_of, corpus
from tests.detectors.scrub.raw_logs import RAW
from tests.service.otlp.requests import JSON, document, span
from tests.service.otlp.requests import read as read_spans

TIME: Final = "2026-09-21T14:13:20Z"
WAYS_OUT: Final = ("tallystick scrub", "--map", "export", "instead", "use a file for each")
Case = dict[str, Any]


def flat(case: Case) -> Any:
    return {"ts": TIME, "model": case["model"], "provider": case["provider"]} | case["answer"]


def renamed(value: Any) -> Any:
    """Return the object under names that nobody has."""
    if isinstance(value, dict):
        return {f"x_{name}": renamed(inner) for name, inner in value.items()}
    return list(map(renamed, value)) if isinstance(value, list) else value


def spans(case: Case) -> Any:
    return json.loads(json.dumps(document(span(attributes_of(case)))))


ENVELOPES: Final[dict[str, Callable[[Case], Any]]] = {
    "as it is": flat,
    "within an event": lambda case: {"event": "answered", "data": {"result": flat(case)}},
    "as text in a log": lambda case: {"severity": "info", "line": json.dumps(flat(case))},
    "in a list": lambda case: {"page": 1, "items": [flat(case)] * 3},
    "a batch of records": lambda case: {"records": [flat(case)]},
    "under other names": lambda case: flat(case) | {"usage": renamed(case["answer"])},
    "as a span": spans,
}


def cases() -> list[Case]:
    """Return the exchanges whose answer is one object with its usage."""
    return [case for case in corpus() if "oken" in json.dumps(case["answer"])]


def scrubbed(text: bytes) -> Summary:
    scrubber = Scrubber()
    list(scrubber.read(BytesIO(text)))
    return scrubber.summary


def said_by_audit(text: bytes) -> str:
    try:
        detectors.audit(BytesIO(text))
    except DetectorError as error:
        return " ".join([str(error), *explain_error(error)])
    return ""


@each_case("name", ENVELOPES)
def test_usage_in_any_form_is_read_or_explained(name: str) -> None:
    for case in cases():
        text = json.dumps(ENVELOPES[name](case)).encode()
        summary = scrubbed(text)
        assert summary.calls or set(summary.dropped) - {NO_USAGE}, (name, case["name"], text)


def test_an_audit_of_usage_in_any_form_ends_in_a_way_out() -> None:
    for name in sorted({*ENVELOPES} - {"as it is"}):
        for case in cases()[::12]:
            text = json.dumps(ENVELOPES[name](case)).encode()
            said = said_by_audit(text)
            assert not said or any(way in said for way in WAYS_OUT), (name, case["name"], said)


def test_samples_of_each_source_are_read_by_all_doors_of_files_or_explained() -> None:
    files = {name: export.file for name, export in EXPORTS.items()}
    files |= {name: json.dumps(row).encode() for name, row in RAW.items()}
    for name, file in files.items():
        with suppress(DetectorError):  # which is a sentence for the whole file
            summary = scrubbed(file)
            assert summary.calls or set(summary.dropped) - {NO_USAGE} or "unknown" in name, name


LOGS: Final[Case] = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"attributes": []}]}]}]}
METRICS: Final[Case] = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "tokens"}]}]}]}


def samples() -> dict[str, bytes]:
    """Return what is meant for any of the doors."""
    files = {name: export.file for name, export in EXPORTS.items()}
    files |= {name: json.dumps(row).encode() for name, row in RAW.items()}
    for name, make in ENVELOPES.items():
        files |= {
            f"{case['name']} {name}": json.dumps(make(case)).encode() for case in cases()[::9]
        }
    return files | {"logs": json.dumps(LOGS).encode(), "metrics": json.dumps(METRICS).encode()}


def test_the_ingest_door_refuses_every_other_sample_with_a_reason() -> None:
    refused = 0
    for name, body in samples().items():
        for version in (V1, V2):
            try:
                assert decode_batch(body, version), name
            except DetectorError as error:
                said = str(error)
                refused += 1
                assert "CANARY" not in said, name
                assert any(way in said for way in ("Remove them", "Send", '"records"')), said
    assert refused > 200


def test_the_door_of_spans_answers_no_other_sample_with_nothing() -> None:
    read = 0
    for name, body in samples().items():
        if "as a span" in name:
            calls = read_spans(body, JSON)
            assert calls.calls or list(describe(calls)), name
            read += 1
        else:
            with pytest.raises(BadRequestError, match="has no resourceSpans|isn't valid OTLP JSON"):
                read_spans(body, JSON)
    assert read >= len(cases()[::9])
    assert list(describe(read_spans(b" {} ", JSON))) == []  # a request without spans


def test_the_door_of_uploads_reads_or_refuses_every_sample_with_a_way_out() -> None:
    refused = 0
    for name, file in samples().items():
        for text in (file, gzip.compress(file), zstandard.compress(file)):
            try:
                chunks = list(read_chunks(BytesIO(text)))
            except DetectorError as error:
                said = " ".join([str(error), *explain_error(error)])
                refused += 1
                assert "CANARY" not in said, name
                assert any(way in said for way in (*WAYS_OUT, "use ", "add ", "Remove", "again")), (
                    said
                )
            else:
                read = sum(chunk.rows for chunk in chunks)
                assert read or any(chunk.dropped for chunk in chunks), name
    assert refused > 100


def written(text: bytes) -> list[bytes]:
    return sorted(b"".join(Scrubber().read(BytesIO(text))).splitlines())


def test_what_scrub_writes_it_reads_again_as_it_is() -> None:
    exchanges = [json.dumps(flat(case) | {"service_tier": "scale"}).encode() for case in cases()]
    compared = 0
    for file in (*(export.file for export in EXPORTS.values()), b"\n".join(exchanges)):
        with suppress(DetectorError):
            lines = written(file)
            assert written(b"\n".join(lines)) == lines
            compared += len(lines)
    assert compared > 100
