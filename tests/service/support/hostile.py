"""A hundred bodies meant to break a JSON reader, each with the allowed statuses."""

import json
from typing import Any

from tests.service.support.scenes import record

REFUSED = (400, 422)
TAKEN = (201,)

_NUMBERS = [
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "true",
        "false",
        "null",
        '"5"',
        "[]",
        "{}",
    ),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "1e13", "1.0", "1.5"),
    *("-1", "-0.5", "0x10", "01", "+1", "1_000", ".5", "5.", "1e", "--1", "'5'", "1000000000001"),
    *("9" * 400, "1" + "0" * 5000, "1e-400"),
]
_LABELS = [
    *('"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u001b[31m"', '"\\n"'),
    *('"\\r\\nX: y"', '"\\u007f"', '"\\u0085"', '"' + "x" * 201 + '"', '"\\x41"', '"unclosed'),
    *("5", "true", "[]", "{}", '["x"]', '{"text": "x"}', '"' + "x" * 100_000 + '"'),
    *('"a\tb"', '"\\q"', "'single'"),
]
_TIMES = [
    *('""', '"now"', '"2026-13-01T00:00:00Z"', '"2026-02-30T00:00:00Z"', '"2026-01-01T25:00:00Z"'),
    *('"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59Z"', '"2026-01-01T00:00:00+99:00"', "0"),
    *("1e400", '"2026-01-01T00:00:61Z"', '"+292277026596-12-04T15:30:08Z"'),
]
_WHOLE = [
    *(b"", b" ", b"\x00", b"{", b"}", b"[", b'{"records"', b'{"records":', b'{"records": [}'),
    *(b'{"records": [{}]}', b'{"records": [[]]}', b'{"records": "x"}', b'{"records": {"0": {}}}'),
    *(
        b"\xff\xfe{",
        b"\xef\xbb\xbf{}",
        b"\x1f\x8b\x08",
        b"\x80\x81",
        b'{"records": []} x',
        b"// c\n{}",
    ),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000),
    *(
        b'{"records": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"records": [{"ts": ' + b"[" * 999,
    ),
    *(
        b"null",
        b"true",
        b"5",
        b'"records"',
        b"[1, 2",
        b'{"records": [{"a": 1, }]}',
        b"{'records': []}",
    ),
    *(b"<records/>", b"records=1", b"---\nrecords: []\n", b'{"records": [,]}', b'{"": {}}'),
]


def hostile_bodies() -> list[bytes]:
    """Bodies that must be refused."""
    bodies = [
        *(_with("prompt_tokens", text) for text in _NUMBERS),
        *(_with("tag", text) for text in _LABELS),
        *(_with("ts", text) for text in _TIMES),
        *_WHOLE,
    ]
    whole = json.dumps({"records": [record()]})
    return [*bodies, whole.encode("utf-16"), whole.encode("utf-32"), whole.encode("utf-16-be")]


def _with(field: str, text: str) -> bytes:
    """A batch of one record that is good but for the raw text of this field."""
    marker = "@@@"
    fields: dict[str, Any] = {field: marker}
    body = json.dumps({"records": [record(**fields)]})
    return body.replace(f'"{marker}"', text).encode("utf-8", "surrogatepass")
