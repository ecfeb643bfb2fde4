"""Adversarial requests of spans, in protobuf and JSON: functions of a size, one attack each.

Most repeat one thing in one place, from what a request is made of down to what a value is made of.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.adversarial.files import Attack, numbered, repeated

_DEPTH: Final = 30
_NAME: Final = 40_000  # bytes of a name that everything below shares


def field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message, with its length."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _attribute(name: bytes, value: bytes = b"") -> bytes:
    return field(1, name) + field(2, value)


def _text(value: bytes) -> bytes:
    return field(1, value)


def _array(values: bytes) -> bytes:
    return field(5, values)


def _map(members: bytes) -> bytes:
    return field(6, members)


def _nested(depth: int, wrap: Callable[[bytes], bytes], value: bytes) -> bytes:
    for _ in range(depth):
        value = wrap(value)
    return value


def _spans(spans: bytes, scope: bytes = b"", resource: bytes = b"") -> bytes:
    return field(1, field(1, resource) + field(2, field(1, scope) + spans))


def _in_spans(unit: bytes, scope: bytes = b"", resource: bytes = b"") -> Attack:
    """Repeat a span."""
    return lambda size: _spans(repeated(field(2, unit), size), scope, resource)


def _in_a_span(unit: bytes) -> Attack:
    """Repeat a field of one span."""
    return lambda size: _spans(field(2, repeated(unit, size)))


def _in_full_spans(unit: bytes) -> Attack:
    """Repeat a field of spans that are as large as those which are read at once."""
    return lambda size: _spans(repeated(field(2, repeated(unit, 60_000)), size))


def _everywhere(name: str, unit: bytes) -> dict[str, Attack]:
    """Repeat a field of a span in each of these ways."""
    return {
        f"{name} in a span": _in_a_span(unit),
        f"{name} in spans": _in_full_spans(unit),
    }


def _in_value(name: bytes, wrap: Callable[[bytes], bytes], unit: bytes) -> dict[str, Attack]:
    def attribute(size: int) -> bytes:
        return field(9, _attribute(name, wrap(repeated(unit, size))))

    shown = f"{wrap.__name__[1:]}s of {len(unit)} bytes in {name.decode()}"
    return {
        f"{shown}, one span": lambda size: _spans(field(2, attribute(size))),
        f"{shown}, spans": lambda size: _spans(repeated(field(2, attribute(60_000)), size)),
        f"{shown}, one large span": lambda size: _spans(
            field(2, repeated(attribute(60_000), size))
        ),
        f"{shown}, an event": lambda size: _spans(
            field(2, field(11, field(3, attribute(60_000)[2:]) * (size // 60_000 + 1)))
        ),
    }


ID: Final = b"\x0a\x10" + b"t" * 16
USAGE: Final = field(9, _attribute(b"gen_ai.usage.input_tokens", b"\x18\x05"))
CACHED: Final = field(9, _attribute(b"gen_ai.usage.cache_read.input_tokens", b"\x18\x02"))
MODEL: Final = field(9, _attribute(b"gen_ai.request.model", _text(b"m")))
START: Final = b"\x39" + (1_772_442_900_000_000_000).to_bytes(8, "little")
CALL: Final = ID + START + USAGE + CACHED + MODEL


def _chain(size: int, first: int = 0, calls: bytes = b"") -> bytes:
    """Return spans that are each the parent of the next."""
    count = size // 40
    return b"".join(
        field(2, ID + field(2, b"%08d" % number) + field(4, b"%08d" % (number - 1)) + calls)
        for number in range(first, first + count)
    )


def _calls_below_a_chain(size: int) -> bytes:
    count = size // 2 // 40
    end = field(2, CALL + field(2, b"leaf%04d" % 0) + field(4, b"%08d" % (count - 1)))
    return _spans(_chain(size // 2) + repeated(end, size // 2))


def _calls_along_a_chain(size: int) -> bytes:
    count = size // 2 // 40
    step = len(field(2, CALL + field(2, b"l" * 8) + field(4, b"p" * 8)))
    ends = (
        field(2, CALL + field(2, b"l%07d" % number) + field(4, b"%08d" % (number % max(count, 1))))
        for number in range(size // 2 // step)
    )
    return _spans(_chain(size // 2) + b"".join(ends))


def _calls_below_a_ring(size: int) -> bytes:
    count = size // 2 // 40
    closing = field(2, ID + field(2, b"%08d" % 0) + field(4, b"%08d" % (count - 1)))
    end = field(2, CALL + field(2, b"leaf%04d" % 0) + field(4, b"%08d" % (count - 1)))
    return _spans(_chain(size // 2) + closing + repeated(end, size // 2))


def _numbered_attributes(template: bytes, value: bytes) -> Attack:
    """Return spans whose attributes all have names of their own."""

    def attack(size: int) -> bytes:
        unit = len(field(9, _attribute(template % 10_000_000, value)))
        names = (field(9, _attribute(template % n, value)) for n in range(size // unit))
        attributes = b"".join(names)
        starts = range(0, len(attributes), unit * 1_000)
        return _spans(
            b"".join(field(2, attributes[at : at + unit * 1_000]) for at in starts)
            if all(len(template % n) == len(template % 0) for n in (1, 9_999_999))
            else field(2, attributes)
        )

    return attack


def _providers(size: int) -> bytes:
    """Return calls of providers with names of their own, in a scope with a long version."""
    scope = field(1, b"litellm") + field(2, b"1." * (_NAME // 2))
    own = (
        field(2, CALL + field(9, _attribute(b"gen_ai.system", _text(b"provider-%08d" % number))))
        for number in range(size // 170)
    )
    return _spans(b"".join(own), scope)


_SKELETONS: Final = {
    "numbers": b"[" + b"0," * 30_000 + b"0]",
    "arrays": b"[" + b"[]," * 20_000 + b"[]]",
    "roles": b"[" + b'{"role":"user"},' * 3_700 + b"{}]",
    "digits": b"[" + b"9" * 60_000 + b"]",
    "open brackets": b"[" * 60_000,
}
_CONTENT: Final = b"input.value"

PROTOBUFS: Final[dict[str, Attack]] = {
    "spans": _in_spans(b""),
    "spans with IDs": _in_spans(ID + field(2, b"s" * 8) + field(4, b"p" * 8)),
    "calls": _in_spans(CALL + field(2, b"s" * 8)),
    "calls of a long scope": _in_spans(CALL + field(2, b"s" * 8), field(1, b"s" * _NAME)),
    "calls of a long service": _in_spans(
        CALL + field(2, b"s" * 8),
        resource=field(1, _attribute(b"service.name", _text(b"s" * _NAME))),
    ),
    "calls of a long environment": _in_spans(
        CALL + field(2, b"s" * 8),
        resource=field(1, _attribute(b"deployment.environment", _text(b"s" * _NAME))),
    ),
    "calls of many providers, a long version": _providers,
    "a chain of parents": lambda size: _spans(_chain(size)),
    "calls below a chain of parents": _calls_below_a_chain,
    "calls along a chain of parents": _calls_along_a_chain,
    "calls below a ring of parents": _calls_below_a_ring,
    "a chain of calls": lambda size: _spans(_chain(size, calls=CALL[len(ID) :])),
    "resources": partial(repeated, b"\x0a\x00"),
    "resources in a resource": lambda size: field(1, repeated(b"\x0a\x00", size)),
    "scopes": lambda size: field(1, repeated(b"\x12\x00", size)),
    "scopes in a scope": lambda size: field(1, field(2, repeated(b"\x0a\x00", size))),
    "unknown fields of a request": partial(repeated, b"\x7a\x00"),
    "a long resource": lambda size: _spans(b"", resource=repeated(field(1, b""), size)),
    "long resources": lambda size: repeated(
        _spans(b"", resource=repeated(field(1, b""), 60_000)), size
    ),
    "long scopes": lambda size: repeated(_spans(b"", repeated(field(3, b""), 60_000)), size),
    **_everywhere("attributes", field(9, b"")),
    **_everywhere("equal attributes", USAGE),
    **_everywhere("attributes of events' names", field(9, _attribute(_CONTENT))),
    **_everywhere("events", field(11, b"")),
    **_everywhere("events with attributes", field(11, field(3, b"") * 20)),
    **_everywhere(
        "events of messages", field(11, field(2, b"gen_ai.x") + field(3, field(1, b"text")))
    ),
    **_everywhere("links", field(13, b"")),
    **_everywhere("links with attributes", field(13, field(4, b"") * 20)),
    **_everywhere("statuses", field(15, b"")),
    **_everywhere("unknown fields", b"\x78\x00"),
    **_everywhere("times", START),
    "attributes with names of their own": _numbered_attributes(b"n%d", b""),
    "content with names of its own": _numbered_attributes(b"gen_ai.prompt.%d", b""),
    "text with names of its own": _numbered_attributes(b"gen_ai.prompt.%d", _text(b"x")),
    "a long name": lambda size: _spans(field(2, field(9, _attribute(repeated(b"n", size))))),
    "a long name of content": lambda size: _spans(
        field(2, field(9, _attribute(repeated(b"gen_ai.prompt.", size))))
    ),
    "long names of content": lambda size: _spans(
        repeated(field(2, field(9, _attribute(repeated(b"gen_ai.prompt.", 50_000)))), size)
    ),
    **_in_value(b"n", _array, field(1, b"")),
    **_in_value(_CONTENT, _array, field(1, b"")),
    **_in_value(_CONTENT, _array, field(1, _text(b""))),
    **_in_value(_CONTENT, _map, field(1, b"")),
    **_in_value(_CONTENT, _map, field(1, _attribute(b"", _text(b"")))),
    **_in_value(_CONTENT, _array, field(1, _nested(_DEPTH, lambda v: _array(field(1, v)), b""))),
    **_in_value(b"n", _array, field(1, _nested(_DEPTH, lambda v: _array(field(1, v)), b""))),
    **_in_value(b"n", _array, field(1, _nested(200, lambda v: _array(field(1, v)), b""))),
    **{
        f"messages of {name}": _in_spans(field(9, _attribute(_CONTENT, _text(skeleton))))
        for name, skeleton in _SKELETONS.items()
    },
    "copies of a usage": _in_spans(
        CALL + field(9, _attribute(b"gen_ai.usage.raw", _text(b"'" + b"a" * 41) * 95))
    ),
    "quotes of a usage": _in_spans(
        CALL + field(9, _attribute(b"gen_ai.usage.raw", _text(b"'a': 1" * 660)))
    ),
    "long numbers": _in_spans(
        CALL + field(9, _attribute(b"gen_ai.usage.output_tokens", _text(b"9" * 5_000)))
    ),
}


def _document(spans: bytes, scope: bytes = b"{}", resource: bytes = b"{}") -> bytes:
    scoped = b'{"scope":%s,"spans":[%s]}' % (scope, spans)
    return b'{"resourceSpans":[{"resource":%s,"scopeSpans":[%s]}]}' % (resource, scoped)


def _json_spans(unit: bytes, scope: bytes = b"{}", resource: bytes = b"{}") -> Attack:
    return lambda size: _document(unit + repeated(b"," + unit, size), scope, resource)


def _json_in(start: bytes, unit: bytes, end: bytes) -> dict[str, Attack]:
    """Repeat a list's element, in one span and in spans that are read at once."""

    def span(size: int) -> bytes:
        return b"{" + start + unit + repeated(b"," + unit, size) + end + b"}"

    shown = f"{(start + unit)[:60].decode()}"
    return {
        f"{shown}, one span": lambda size: _document(span(size)),
        f"{shown}, spans": lambda size: _document(
            span(60_000) + repeated(b"," + span(60_000), size)
        ),
        f"{shown}, a resource": lambda size: _document(b"", resource=span(size)),
    }


def _json_attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": value}


def _json_call(number: str = "0", parent: str = "", **values: Any) -> bytes:
    attributes = {
        "gen_ai.usage.input_tokens": {"intValue": 5},
        "gen_ai.usage.cache_read.input_tokens": {"intValue": 2},
        "gen_ai.request.model": {"stringValue": "m"},
        **values,
    }
    span = {
        "traceId": "1" * 32,
        "spanId": f"{number:>016}",
        "parentSpanId": parent and f"{parent:>016}",
        "startTimeUnixNano": 1_772_442_900_000_000_000,
        "attributes": [_json_attribute(*each) for each in values.items() or attributes.items()],
    }
    span["attributes"] = [_json_attribute(*each) for each in attributes.items()]
    return json.dumps(span, separators=(",", ":")).encode()


def _json_chain(size: int) -> bytes:
    template = b'{"spanId":"%016d","parentSpanId":"%016d"}'
    count = max(size // 63, 2)
    return b",".join(template % (number, number - 1) for number in range(1, count))


def _json_below_a_chain(size: int) -> bytes:
    end = max(size // 2 // 63, 2) - 1
    return _document(_json_chain(size // 2) + repeated(b"," + _json_call("f", str(end)), size // 2))


_VALUE: Final = b'"attributes":[{"key":"%s","value":%s'
_ARRAY: Final = b'{"arrayValue":{"values":['
_MAP: Final = b'{"kvlistValue":{"values":['
_CLOSED: Final = b"]}}}]"


def _json_nested(depth: int) -> bytes:
    return _ARRAY * depth + b"]}}" * depth


JSONS: Final[dict[str, Attack]] = {
    "spans": _json_spans(b"{}"),
    "nulls": _json_spans(b"null"),
    "calls": _json_spans(_json_call()),
    "calls of a long scope": _json_spans(_json_call(), b'{"name":"%s"}' % (b"s" * _NAME)),
    "calls of a long service": _json_spans(
        _json_call(),
        resource=b'{"attributes":[{"key":"service.name","value":{"stringValue":"%s"}}]}'
        % (b"s" * _NAME),
    ),
    "calls below a chain of parents": _json_below_a_chain,
    "a chain of parents": lambda size: _document(_json_chain(size)),
    "resources": lambda size: b'{"resourceSpans":[{}%s]}' % repeated(b",{}", size),
    "scopes": lambda size: b'{"resourceSpans":[{"scopeSpans":[{}%s]}]}' % repeated(b",{}", size),
    "spaces": lambda size: _document(repeated(b" ", size)),
    "equal keys": lambda size: _document(b'{"spanId":""%s}' % repeated(b',"spanId":""', size)),
    "equal lists": lambda size: (
        b'{"resourceSpans":[{}]%s}' % repeated(b',"resourceSpans":[{}]', size)
    ),
    "unknown keys": lambda size: _document(b'{"spanId":""%s}' % repeated(b',"x":[]', size)),
    "keys of their own": lambda size: _document(b'{"spanId":""%s}' % numbered(b',"k%d":1', size)),
    "names of their own": lambda size: _document(
        b'{"attributes":[{}%s]}' % numbered(b',{"key":"n%d","value":{}}', size)
    ),
    "names of their own in spans": lambda size: _document(
        b"{}" + numbered(b',{"attributes":[{"key":"n%d","value":{}}]}', size)
    ),
    "content with names of its own": lambda size: _document(
        b"{}"
        + numbered(
            b',{"attributes":[{"key":"gen_ai.prompt.%d","value":{"stringValue":"x"}}]}', size
        )
    ),
    "an ID of digits": lambda size: _document(b'{"spanId":"%s"}' % repeated(b"00", size)),
    "a time of digits": lambda size: _document(b'{"startTimeUnixNano":%s}' % repeated(b"9", size)),
    "times of digits": _json_spans(b'{"startTimeUnixNano":%s}' % (b"9" * 4_000)),
    "counts of digits": _json_spans(
        b'{"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":%s}}]}'
        % (b"9" * 4_000)
    ),
    "fractions of digits": _json_spans(
        b'{"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"doubleValue":0.%s}}]}'
        % (b"9" * 4_000)
    ),
    "escapes": lambda size: _document(b'{"spanId":"%s"}' % repeated(b"\\u0041", size)),
    "open brackets": lambda size: _document(repeated(_ARRAY, size)),
    "nested arrays": _json_spans(b"{" + _VALUE % (_CONTENT, _json_nested(200)) + b"}]}"),
    **_json_in(b'"attributes":[', b"{}", b"]"),
    **_json_in(b'"attributes":[', b'{"key":"input.value","value":{}}', b"]"),
    **_json_in(b'"events":[', b"{}", b"]"),
    **_json_in(b'"events":[', b'{"name":"gen_ai.x","attributes":[{"key":"text"}]}', b"]"),
    **_json_in(b'"links":[', b'{"attributes":[{},{}]}', b"]"),
    **_json_in(_VALUE % (b"n", _ARRAY), b"{}", _CLOSED),
    **_json_in(_VALUE % (_CONTENT, _ARRAY), b"{}", _CLOSED),
    **_json_in(_VALUE % (_CONTENT, _ARRAY), b'{"stringValue":""}', _CLOSED),
    **_json_in(_VALUE % (_CONTENT, _ARRAY), _json_nested(30), _CLOSED),
    **_json_in(_VALUE % (_CONTENT, _MAP), b'{"key":"","value":{}}', _CLOSED),
    **{
        f"messages of {name}": _json_spans(
            b"{"
            + _VALUE % (_CONTENT, json.dumps({"stringValue": skeleton.decode()}).encode())
            + b"}]}"
        )
        for name, skeleton in _SKELETONS.items()
    },
}
