"""A request as rows to store: the records of calls and their keys, or agents' own totals."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from detectors.contract import StoredRecord
from detectors.formats import encode_records
from service.models.imports.span_keys import (
    FLAG,
    KEY,
    LINK,
    MAYBE,
    NO_DIGEST,
    NO_PARENT,
    digest,
    find_counted,
    read_keys,
)
from service.web.otlp import json_spans
from service.web.otlp.agent_logs import Answer, LogReading
from service.web.otlp.agent_metrics import MetricReading
from service.web.otlp.attributes import KINDS, RESPONSE_ID, SERVICE
from service.web.otlp.calls import is_around_calls, read_call, read_provider, read_usage
from service.web.otlp.content import Switch, published_event_name
from service.web.otlp.spans import SPAN_BYTES, SPAN_COST, TRACE_BYTES, OtlpSpan, SpanReading, first

_LEVEL: Final = 1
MAX_ATTRIBUTE_NAME: Final = 100
# Their calls have no spans.
_ONLY_AGENTS: Final = frozenset(("openinference.instrumentation.claude_agent_sdk",))

Reader = Callable[[bytes, SpanReading], Iterator[OtlpSpan]]
LogReader = Callable[[bytes, LogReading], Iterator[Answer]]
MetricReader = Callable[[bytes, MetricReading], None]


def _read_protobuf(body: bytes, reading: SpanReading) -> Iterator[OtlpSpan]:
    # The official messages take 5 MB, which only installations that get traces need.
    from service.web.otlp.protobuf import read_spans

    return read_spans(body, reading)


def _read_protobuf_logs(body: bytes, reading: LogReading) -> Iterator[Answer]:
    from service.web.otlp.protobuf import read_logs

    return read_logs(body, reading)


def _read_protobuf_metrics(body: bytes, reading: MetricReading) -> None:
    from service.web.otlp.protobuf import read_metrics

    read_metrics(body, reading)


READERS: Final[Mapping[str, Reader]] = {
    "application/x-protobuf": _read_protobuf,
    "application/json": json_spans.read_spans,
}
LOG_READERS: Final[Mapping[str, LogReader]] = {
    "application/x-protobuf": _read_protobuf_logs,
    "application/json": json_spans.read_logs,
}
METRIC_READERS: Final[Mapping[str, MetricReader]] = {
    "application/x-protobuf": _read_protobuf_metrics,
    "application/json": json_spans.read_metrics,
}


@dataclass(frozen=True)
class Calls:
    """The calls of a request, ready to be stored, and what is to be said of its other spans.

    `rejected` spans have values beyond the limits of a record; for `assumed` calls nobody says
    whether their input includes the cached tokens. `unknown` has the names of the numbers in their
    usage that we don't know.
    """

    calls: int
    rejected: int
    assumed: int
    unknown: list[str]
    environment: str | None
    lines: bytes  # compressed
    keys: bytes
    links: bytes
    # Spans with text, by what turns it off: how many, and the names of their attributes.
    texts: Mapping[Switch | None, tuple[int, set[str]]]
    repeated: int  # calls whose usage other spans of the request repeat, and their repeats
    agents: int  # spans around calls, none of which are in the request
    unnamed: int  # spans around calls that name no model
    unread: int  # spans with no tokens that we read, but others
    unread_names: set[str]
    unused: int = 0  # log records that are no calls
    large: int = 0  # log records that were not decoded
    of_logs: bool = False


def read_request(body: bytes, read: Reader, tag_attribute: str | None = None) -> Calls:
    """Return the calls of a request.

    Raise `BadRequestError` if the body can't be decoded, and `PayloadTooLargeError` if it has too
    many spans or attributes.
    """
    reading = SpanReading(tag_attribute)
    spans = list(read(body, reading))  # a fifth faster than in turn with the records
    found, links, rejected, unnamed = [], [], 0, 0
    for span in spans:
        provider = read_provider(span)
        usage = read_usage(span, provider, reading.spend)
        if usage is None:
            links.append(span)
            reading.note_unread(name for name, count in span.usage.items() if count > 0)
            continue
        record = None
        if usage and _has_identity(span):
            record = read_call(span, provider, usage[0], 0, tag_attribute)
        if record is None:
            if is_around_calls(span.values):
                links.append(span)
                unnamed += 1
            else:
                rejected += 1
            continue
        found.append((span, record))
        for place, each in enumerate(usage[1:], 1):
            reading.spend(SPAN_COST)
            other = read_call(span, provider, each, place, tag_attribute)
            if other is not None:
                # A call after the first has a name of its own.
                span_id, values = digest(f"{span.span_id.hex()}.{place + 1}"), span.values
                if response := first(values, RESPONSE_ID):
                    values = {**values, RESPONSE_ID[0]: f"{response}.{place + 1}"}
                found.append((span._replace(span_id=span_id, values=values), other))
    return _pack(found, links, reading, rejected, unnamed)


def read_log_request(body: bytes, read: LogReader, tag_attribute: str | None = None) -> Calls:
    """Return the calls of a request of log records; errors are those of `read_request`."""
    reading = LogReading(tag_attribute)
    found, rejected = [], 0
    for answer in read(body, reading):
        span, usage = answer.as_span(), answer.read_usage()
        provider = read_provider(span)
        record = read_call(span, provider, usage[0], 0, tag_attribute) if usage else None
        if record is None:
            rejected += 1
            continue
        found.append((span, msgspec.structs.replace(record, billing=answer.billing)))
    calls = _pack(found, (), reading, rejected, 0)
    return replace(calls, unused=reading.unused, large=reading.large, of_logs=True)


def is_label_attribute(name: str) -> bool:
    """Check whether an account may choose this attribute as the tag of its calls."""
    is_name = 0 < len(name) <= MAX_ATTRIBUTE_NAME and name.isascii() and name.isprintable()
    return is_name and name == name.strip() and published_event_name("gen_ai.", name) is None


def _has_identity(span: OtlpSpan) -> bool:
    return len(span.trace_id) == TRACE_BYTES and len(span.span_id) == SPAN_BYTES


def _pack(
    found: list[tuple[OtlpSpan, StoredRecord]],
    links: Iterable[OtlpSpan],
    reading: SpanReading,
    rejected: int,
    unnamed: int,
) -> Calls:
    records = [record for _, record in found]
    environments = {record.environment for record in records}
    around = [is_around_calls(span.values) for span, _ in found]
    keys = b"".join(
        _key(span, record, is_around, reading.parents)
        for (span, record), is_around in zip(found, around, strict=True)
    )
    between = b"".join(
        LINK.pack(span.trace_id, span.span_id, _climb(span.parent_id, reading.parents))
        for span in links
        if _has_identity(span)
    )
    counting, agents = records, sum(around)
    traces = {span.trace_id for span, _ in found}
    if len(traces) < len(found) or len({span.origin.scope for span, _ in found}) > 1:
        reading.spend(SPAN_COST * len(found))
        counted = find_counted(read_keys(keys), between)
        counting = [records[at] for at in counted]
        agents = sum(around[at] for at in counted)
    unknown = {record.unknown_fields for record in counting if record.unknown_fields}
    return Calls(
        calls=len(records),
        rejected=rejected,
        assumed=sum(record.input_assumed is not None for record in counting),
        unknown=sorted({name for fields in unknown for name in fields.split()}),
        environment=environments.pop() if len(environments) == 1 else None,
        lines=zlib.compress(encode_records(records), _LEVEL) if records else b"",
        keys=keys,
        links=between,
        texts=reading.rejected,
        repeated=len(records) - len(counting),
        agents=agents,
        unnamed=unnamed,
        unread=reading.unread,
        unread_names=reading.unread_names,
    )


def _key(
    span: OtlpSpan, record: StoredRecord, is_around: bool, parents: dict[bytes, bytes]
) -> bytes:
    response = first(span.values, RESPONSE_ID)
    service = first(span.values, SERVICE) or first(span.origin.resource, SERVICE)
    counts = f"{service}\0{record.prompt_tokens}\0{record.completion_tokens}"
    above = _climb(span.parent_id, parents)
    is_first = above == NO_PARENT and not response
    may_be_around = is_first and KINDS.isdisjoint(span.values)
    may_be_around |= is_around and span.origin.scope not in _ONLY_AGENTS
    return KEY.pack(
        span.trace_id,
        span.span_id,
        above,
        span.start | FLAG if is_around else span.start,
        min(max(span.start, span.end), FLAG - 1) & ~MAYBE | may_be_around,
        digest(span.origin.scope),
        digest(f"{record.provider}\0{response}") if response else NO_DIGEST,
        digest(counts),
    )


def _climb(parent_id: bytes, parents: dict[bytes, bytes]) -> bytes:
    """Return the nearest span above that may be a call, or is not in this request.

    The spans on the way get it as their parent, so that no way is climbed twice.
    """
    passed = []
    while parent_id in parents:
        passed.append(parent_id)
        parent_id = parents.pop(parent_id)  # a ring ends where it began
    parents.update(dict.fromkeys(passed, parent_id))
    return parent_id if len(parent_id) == SPAN_BYTES else NO_PARENT
