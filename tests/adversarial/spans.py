"""Adversarial requests of spans, in protobuf and JSON: functions of a size, one attack each.

Most repeat one thing in one place, from what a request is made of down to what a value is made of:
in one span, and in spans that are as large as those which are read at once.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.adversarial.files import Attack, numbered, repeated

_WHOLE: Final = 60_000  # bytes of a span that is read at once
_CONTENT: Final = b"input.value"
_START: Final = 1_772_442_900_000_000_000

Wrap = Callable[[bytes], bytes]


def field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message, with its length."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _filled(whole: bytes, size: int) -> bytes:
    return whole * max(1, size // len(whole))


def _long(size: int) -> bytes:
    """Return a text that all spans share."""
    return b"s" * min(40_000, size // 4)


# Protobuf


def _pair(name: bytes, value: bytes = b"") -> bytes:
    return field(1, name) + field(2, value)


def _attribute(name: bytes, value: bytes = b"") -> bytes:
    return field(9, _pair(name, value))


def _text(value: bytes) -> bytes:
    return field(1, value)


def _array(values: bytes) -> bytes:
    return field(5, values)


def _map(members: bytes) -> bytes:
    return field(6, members)


def _nested(depth: int) -> bytes:
    """Return an element of an array of arrays."""
    value = b""
    for _ in range(depth):
        value = _array(field(1, value))
    return field(1, value)


def _request(spans: bytes, scope: bytes = b"", resource: bytes = b"") -> bytes:
    return field(1, field(1, resource) + field(2, field(1, scope) + spans))


def _spans(unit: bytes) -> Attack:
    return lambda size: _request(_filled(field(2, unit), size))


def _fields(name: str, unit: bytes) -> dict[str, Attack]:
    """Repeat a field of a span."""
    whole = field(2, repeated(unit, _WHOLE))
    return {
        f"{name}, one span": lambda size: _request(field(2, repeated(unit, size))),
        f"{name}, spans": lambda size: _request(_filled(whole, size)),
    }


def _values(name: str, of: bytes, wrap: Wrap, unit: bytes) -> dict[str, Attack]:
    """Repeat what a value is made of."""
    pair = _pair(of, wrap(repeated(unit, _WHOLE)))
    whole, event = field(9, pair), field(3, pair)
    return {
        f"{name}, one": lambda size: _request(field(2, _attribute(of, wrap(repeated(unit, size))))),
        f"{name}, spans": lambda size: _request(_filled(field(2, whole), size)),
        f"{name}, one span": lambda size: _request(field(2, _filled(whole, size))),
        f"{name}, an event": lambda size: _request(field(2, field(11, _filled(event, size)))),
    }


_ID: Final = field(1, b"t" * 16)
_CALL: Final = (
    b"\x39"
    + _START.to_bytes(8, "little")
    + _attribute(b"gen_ai.usage.input_tokens", b"\x18\x05")
    + _attribute(b"gen_ai.usage.cache_read.input_tokens", b"\x18\x02")
    + _attribute(b"gen_ai.request.model", _text(b"m"))
)


def _span(number: int, parent: int, more: bytes = b"") -> bytes:
    return field(2, _ID + field(2, b"%08d" % number) + field(4, b"%08d" % parent) + more)


def _family(size: int, parent_of: Callable[[int, int], int], *, is_ring: bool = False) -> bytes:
    """Return a chain of spans, and as many bytes of calls whose parents are in it."""
    length = max(1, size // 2 // len(_span(0, 0)))
    calls = size // 2 // len(_span(0, 0, _CALL))
    spans = [_span(number, number - 1) for number in range(1, length)]
    spans.append(_span(0, length - 1 if is_ring else 0))
    spans += [
        _span(50_000_000 + number, parent_of(number, length), _CALL) for number in range(calls)
    ]
    return _request(b"".join(spans))


def _orphans(size: int) -> bytes:
    """Return agents, and in their time calls whose parents are missing, all of one trace."""
    agent = _CALL + _attribute(b"gen_ai.operation.name", _text(b"invoke_agent"))
    agents = size // 2 // len(_span(0, 0, agent))
    calls = size // 2 // len(_span(0, 0, _CALL))
    spans = [_span(number + 1, 60_000_000 + number, agent) for number in range(agents)]
    spans += [_span(50_000_000 + number, 70_000_000 + number, _CALL) for number in range(calls)]
    return _request(b"".join(spans))


def _chain_of_calls(size: int) -> bytes:
    count = size // len(_span(0, 0, _CALL))
    return _request(b"".join(_span(number + 1, number, _CALL) for number in range(count)))


def _sharing(scope: Wrap | None = None, resource: Wrap | None = None) -> Attack:
    """Return calls of a scope or a resource that says a lot."""

    def attack(size: int) -> bytes:
        shared = _long(size)
        return _request(
            _filled(_span(1, 0, _CALL), size - len(shared)),
            b"" if scope is None else scope(shared),
            b"" if resource is None else resource(shared),
        )

    return attack


def _of_resource(name: bytes) -> Wrap:
    return lambda value: field(1, _pair(name, _text(value)))


def _providers(size: int) -> bytes:
    """Return calls of providers with names of their own, in a scope with a long version."""
    version = _long(size).replace(b"ss", b"1.")
    names = (b"provider-%07d" % number for number in range((size - len(version)) // 190))
    spans = (field(2, _CALL + _attribute(b"gen_ai.system", _text(name))) for name in names)
    return _request(b"".join(spans), field(1, b"litellm") + field(2, version))


def _names(template: bytes, value: bytes = b"") -> dict[str, Attack]:
    """Return attributes whose names are all different."""
    shown = template.decode().replace("%07d", "1") + (" with text" if value else "")
    # The length of a number is that of its place.
    unit = _attribute(template % 0, value).replace(template % 0, template)
    return {
        f"names like {shown}, one span": lambda size: _request(field(2, numbered(unit, size))),
        f"names like {shown}, spans": lambda size: _request(numbered(field(2, unit), size)),
    }


_SKELETONS: Final = {
    "numbers": b"[" + b"0," * 29_000 + b"0]",
    "arrays": b"[" + b"[]," * 19_000 + b"[]]",
    "texts": b"[" + b'"",' * 14_000 + b'""]',
    "roles": b"[" + b'{"role":"user"},' * 3_600 + b"{}]",
    "spaces": b"[" + b" " * 58_000 + b"]",
    "an open text": b'["' + b"a" * 58_000,
    "digits": b"[" + b"9" * 58_000 + b"]",
    "open brackets": b"[" * 58_000,
    "marks": b"[" + b'"[redacted-by-a]",' * 3_000 + b'""]',
    "marks that go on": b"[" + b'"' + b"*" * 50_000 + b'"]',
    "contents": b"[" + b'{"content":"[REDACTED]"},' * 2_200 + b"{}]",
}

_ADVISORS: Final = (
    b'{"input_tokens":1,"output_tokens":1,"iterations":['
    + b'{"type":"advisor_message","input_tokens":1},' * 340
    + b"{}]}"
)
_NUMBERS: Final = (
    b'{"input_tokens":1,"output_tokens":1'
    + b"".join(b',"n%d":1' % number for number in range(1_500))
    + b"}"
)
# Parts that no total fits, so that the reader tries every way to count.
_PARTS: Final = b"".join(
    _attribute(b"gen_ai.usage." + name, b"\x18" + count)
    for name, count in (
        (b"output_tokens", b"\x05"),
        (b"total_tokens", b"\x77"),
        (b"cache_creation.input_tokens", b"\x02"),
        (b"reasoning_tokens", b"\x02"),
        (b"audio.input_tokens", b"\x02"),
        (b"image.input_tokens", b"\x02"),
    )
)

PROTOBUFS: Final[dict[str, Attack]] = {
    "spans": _spans(b""),
    "spans with IDs": _spans(_ID + field(2, b"s" * 8) + field(4, b"p" * 8)),
    "calls": _sharing(),
    "calls of a long scope": _sharing(scope=partial(field, 1)),
    "calls of a long service": _sharing(resource=_of_resource(b"service.name")),
    "calls of a long environment": _sharing(resource=_of_resource(b"deployment.environment")),
    "calls of many providers, a long version": _providers,
    "calls below a chain": lambda size: _family(size, lambda _, length: length - 1),
    "calls along a chain": lambda size: _family(size, lambda number, length: number % length),
    "calls below a ring": lambda size: _family(size, lambda _, length: length - 1, is_ring=True),
    "calls along a ring": lambda size: _family(
        size, lambda number, length: number % length, is_ring=True
    ),
    "a chain of calls": _chain_of_calls,
    "agents and calls without parents": _orphans,
    **{
        f"texts like {name}": _spans(_attribute(_CONTENT, _text(text)))
        for name, text in (
            ("a word", b"x"),
            ("an open mark", b"[" + b"a" * 97 + b"]"),
            ("a mark", b"[" + b"redacte" * 13 + b"redacted]"),
            ("brackets", b"[" * 99),
        )
    },
    "texts of a resource": lambda size: _request(
        _filled(_span(1, 0), size), resource=field(1, _pair(_CONTENT, _text(b"x")))
    ),
    "texts of long scopes": lambda size: _filled(
        _request(field(2, _attribute(_CONTENT, _text(b"x"))), field(1, b"s" * 3_000)), size
    ),
    "calls of many parts": lambda size: _request(_filled(_span(1, 0, _CALL + _PARTS), size)),
    "calls within calls": lambda size: _request(
        _filled(_span(1, 0, _CALL + _attribute(b"gen_ai.usage.raw", _text(_ADVISORS))), size)
    ),
    "resources": partial(repeated, b"\x0a\x00"),
    "fields of a resource": lambda size: field(1, repeated(b"\x0a\x00", size)),
    "scopes": lambda size: field(1, repeated(b"\x12\x00", size)),
    "fields of a scope": lambda size: field(1, field(2, repeated(b"\x0a\x00", size))),
    "unknown fields of a request": partial(repeated, b"\x7a\x00"),
    "attributes of a resource": lambda size: _request(b"", resource=repeated(b"\x0a\x00", size)),
    "attributes of resources": lambda size: _filled(
        _request(b"", resource=repeated(b"\x0a\x00", _WHOLE)), size
    ),
    "attributes of scopes": lambda size: _filled(
        _request(b"", repeated(b"\x1a\x00", _WHOLE)), size
    ),
    **_fields("empty attributes", field(9, b"")),
    **_fields("equal attributes", _attribute(b"gen_ai.usage.input_tokens", b"\x18\x05")),
    **_fields("attributes of content", _attribute(_CONTENT)),
    **_fields("events", field(11, b"")),
    **_fields("events with attributes", field(11, field(3, b"") * 20)),
    **_fields("messages", field(11, field(2, b"gen_ai.x") + field(3, field(1, b"text")))),
    **_fields("links", field(13, b"")),
    **_fields("links with attributes", field(13, field(4, b"") * 20)),
    **_fields("statuses", field(15, b"")),
    **_fields("unknown fields", b"\x78\x00"),
    **_fields("times", _CALL[:9]),
    **_names(b"n-%07d"),
    **_names(b"gen_ai.prompt.%07d"),
    **_names(b"gen_ai.usage.%07d"),
    **_names(b"gen_ai.prompt.%07d", _text(b"x")),
    **_names(b"n.%07d.input_tokens", b"\x18\x05"),
    "a long name": lambda size: _request(field(2, _attribute(repeated(b"n", size)))),
    "a long name of content": lambda size: _request(
        field(2, _attribute(repeated(b"gen_ai.prompt.", size)))
    ),
    "long names of content": _spans(_attribute(repeated(b"gen_ai.prompt.", 50_000))),
    **_values("an unread array", b"n", _array, field(1, b"")),
    **_values("an array", _CONTENT, _array, field(1, b"")),
    **_values("an array of texts", _CONTENT, _array, field(1, _text(b""))),
    **_values("an array of usage", b"gen_ai.usage.n", _array, field(1, b"")),
    **_values("a map of usage", b"gen_ai.usage.n", _map, field(1, b"")),
    **_values("arrays of usage in arrays", b"gen_ai.usage.n", _array, _nested(30)),
    **_values("a map", _CONTENT, _map, field(1, b"")),
    **_values("a map of texts", _CONTENT, _map, field(1, _pair(b"", _text(b"")))),
    **_values("arrays in arrays", _CONTENT, _array, _nested(30)),
    **_values("unread arrays in arrays", b"n", _array, _nested(30)),
    **_values("arrays that are too deep", b"n", _array, _nested(200)),
    **{
        f"messages of {name}": _spans(_attribute(_CONTENT, _text(skeleton)))
        for name, skeleton in _SKELETONS.items()
    },
    **{
        name: _spans(_ID + field(2, b"s" * 8) + _CALL + _attribute(of, _text(value)))
        for name, of, value in (
            ("names of a usage", b"gen_ai.usage.raw", (b"'" + b"a" * 41) * 95),
            ("counts of a usage", b"gen_ai.usage.raw", b"'a': 1" * 660),
            ("numbers of a usage", b"gen_ai.usage.raw", _NUMBERS),
            ("quotes of a usage", b"gen_ai.usage.raw", b"'" * 15_000),
            ("long counts", b"gen_ai.usage.output_tokens", b"9" * 5_000),
        )
    },
}


# JSON


def _document(spans: bytes, scope: bytes = b"{}", resource: bytes = b"{}") -> bytes:
    scoped = b'{"scope":%s,"spans":[%s]}' % (scope, spans)
    return b'{"resourceSpans":[{"resource":%s,"scopeSpans":[%s]}]}' % (resource, scoped)


def _listed(unit: bytes, size: int) -> bytes:
    return b",".join([unit] * max(1, size // (len(unit) + 1)))


def _json_spans(unit: bytes) -> Attack:
    return lambda size: _document(_listed(unit, size))


def _elements(name: str, start: bytes, unit: bytes, end: bytes) -> dict[str, Attack]:
    """Repeat an element of a list of a span, and of a resource."""

    def span(size: int) -> bytes:
        return b"{%s%s%s}" % (start, _listed(unit, size), end)

    return {
        f"{name}, one span": lambda size: _document(span(size)),
        f"{name}, spans": lambda size: _document(_listed(span(_WHOLE), size - _WHOLE)),
        f"{name}, a resource": lambda size: _document(b"", resource=span(size)),
    }


_JSON_CALL: Final = json.dumps(
    {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "parentSpanId": "%016d",
        "startTimeUnixNano": _START,
        "attributes": [
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": 5}},
            {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
        ],
    },
    separators=(",", ":"),
).encode()
_JSON_LINK: Final = b'{"spanId":"%016d","parentSpanId":"%016d"}'


def _json_calls_below_a_chain(size: int) -> bytes:
    length = max(1, size // 2 // len(_JSON_LINK % (0, 0)))
    chain = b",".join(_JSON_LINK % (number, number - 1) for number in range(1, length + 1))
    return _document(chain + b"," + _listed(_JSON_CALL % length, size // 2))


def _json_sharing(scope: bytes = b"{}", resource: bytes = b"{}") -> Attack:
    def attack(size: int) -> bytes:
        shared = _long(size)
        spans = _listed(_JSON_CALL % 0, size - len(shared))
        return _document(spans, *(each.replace(b"%s", shared) for each in (scope, resource)))

    return attack


_VALUE: Final = b'"attributes":[{"key":"%s","value":%s'
_ARRAY: Final = b'{"arrayValue":{"values":['
_MAP: Final = b'{"kvlistValue":{"values":['
_END: Final = b"]}}}]"


def _json_nested(depth: int) -> bytes:
    return _ARRAY * depth + b"]}}" * depth


def _digits(kind: bytes) -> Attack:
    count = b'{"key":"gen_ai.usage.input_tokens","value":{"%s%s}}' % (kind, b"9" * 4_000)
    return _json_spans(b'{"attributes":[%s]}' % count)


JSONS: Final[dict[str, Attack]] = {
    "spans": _json_spans(b"{}"),
    "nulls": _json_spans(b"null"),
    "calls": _json_sharing(),
    "calls of a long scope": _json_sharing(b'{"name":"%s"}'),
    "calls of a long service": _json_sharing(
        resource=b'{"attributes":[{"key":"service.name","value":{"stringValue":"%s"}}]}'
    ),
    "calls below a chain": _json_calls_below_a_chain,
    "resources": lambda size: b'{"resourceSpans":[%s]}' % _listed(b"{}", size),
    "scopes": lambda size: b'{"resourceSpans":[{"scopeSpans":[%s]}]}' % _listed(b"{}", size),
    "spaces": lambda size: _document(repeated(b" ", size)),
    "equal keys": lambda size: _document(b"{%s}" % _listed(b'"spanId":""', size)),
    "equal lists": lambda size: b"{%s}" % _listed(b'"resourceSpans":[{}]', size),
    "unknown keys": lambda size: _document(b"{%s}" % _listed(b'"x":[]', size)),
    "keys of their own": lambda size: _document(b"{%s}" % numbered(b'"k%d":1,', size)[:-1]),
    "names of their own, one span": lambda size: _document(
        b'{"attributes":[{}%s]}' % numbered(b',{"key":"n%d","value":{}}', size)
    ),
    "names of their own, spans": lambda size: _document(
        b"{}" + numbered(b',{"attributes":[{"key":"n%d","value":{}}]}', size)
    ),
    "text with names of its own": lambda size: _document(
        b"{}"
        + numbered(b',{"attributes":[{"key":"ai.prompt.%d","value":{"stringValue":"x"}}]}', size)
    ),
    "an ID of digits": lambda size: _document(b'{"spanId":"%s"}' % repeated(b"00", size)),
    "a time of digits": lambda size: _document(b'{"startTimeUnixNano":%s}' % repeated(b"9", size)),
    "times of digits": _json_spans(b'{"startTimeUnixNano":%s}' % (b"9" * 4_000)),
    "counts of digits": _digits(b'intValue":'),
    "fractions of digits": _digits(b'doubleValue":0.'),
    "escapes": lambda size: _document(b'{"spanId":"%s"}' % repeated(b"\\u0041", size)),
    "open brackets": lambda size: _document(repeated(_ARRAY, size)),
    "deep arrays": _json_spans(b"{" + _VALUE % (_CONTENT, _json_nested(200)) + b"}]}"),
    **_elements("empty attributes", b'"attributes":[', b"{}", b"]"),
    **_elements("content", b'"attributes":[', b'{"key":"input.value","value":{}}', b"]"),
    **_elements("events", b'"events":[', b"{}", b"]"),
    **_elements(
        "messages", b'"events":[', b'{"name":"gen_ai.x","attributes":[{"key":"text"}]}', b"]"
    ),
    **_elements("links", b'"links":[', b'{"attributes":[{},{}]}', b"]"),
    **_elements("an unread array", _VALUE % (b"n", _ARRAY), b"{}", _END),
    **_elements("an array", _VALUE % (_CONTENT, _ARRAY), b"{}", _END),
    **_elements("an array of texts", _VALUE % (_CONTENT, _ARRAY), b'{"stringValue":""}', _END),
    **_elements("arrays in arrays", _VALUE % (_CONTENT, _ARRAY), _json_nested(30), _END),
    **_elements("an array of usage", _VALUE % (b"gen_ai.usage.n", _ARRAY), b"{}", _END),
    **_elements("a map", _VALUE % (_CONTENT, _MAP), b'{"key":"","value":{}}', _END),
    **{
        f"messages of {name}": _json_spans(
            b"{%s}]}"
            % (_VALUE % (_CONTENT, b'{"stringValue":%s' % json.dumps(text).encode() + b"}"))
        )
        for name, text in ((name, skeleton.decode()) for name, skeleton in _SKELETONS.items())
    },
}
