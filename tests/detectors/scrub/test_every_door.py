"""Whatever carries usage is read by `scrub` and `audit`, or they say what it is and what to do."""

import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any, Final

import pytest

import detectors
from detectors.errors import DetectorError
from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.csv_logs.proposals import explain_error
from detectors.scrub.scrubber import Scrubber, Summary
from tests.detectors.formats.adapters.exports import EXPORTS
from tests.detectors.formats.usage.doors import attributes_of, corpus
from tests.detectors.scrub.raw_logs import RAW
from tests.service.otlp.requests import document, span

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


@pytest.mark.parametrize("name", ENVELOPES)
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
