"""Adversarial bodies of batches and uploads: functions of a size, each one kind of attack."""

from typing import Final

from tests.adversarial.files import Attack, numbered, repeated

RECORD: Final = (
    b'{"ts":"2026-01-01T00:00:00Z","provider":"openai","model":"m",'
    b'"prompt_tokens":1,"completion_tokens":2%s}'
)


def _records(unit: bytes, first: bytes = b"") -> Attack:
    return lambda size: b'{"records":[' + (first or unit) + repeated(b"," + unit, size) + b"]}"


def _in_record(start: bytes, unit: bytes, end: bytes = b"") -> Attack:
    return lambda size: b'{"records":[%s]}' % (RECORD % (start + repeated(unit, size) + end))


def _beside(start: bytes, unit: bytes, end: bytes = b"") -> Attack:
    return lambda size: b'{"records":[%s]%s}' % (RECORD % b"", start + repeated(unit, size) + end)


BODIES: Final[dict[str, Attack]] = {
    "numbers": _records(b"1"),
    "nulls": _records(b"null"),
    "empty arrays": _records(b"[]"),
    "empty objects": _records(b"{}"),
    "empty texts": _records(b'""'),
    "arrays of arrays": _records(b"[[],[],[]]"),
    "records": _records(RECORD % b""),
    "bad records": _records(RECORD % b',"cached_tokens":-1'),
    "records with an unknown key": _records(RECORD % b',"x":1'),
    "records with escapes": _records(RECORD % b',"tag":"\\u0041"'),
    "arrays in a record": _in_record(b',"x":[[]', b",[]", b"]"),
    "objects in a record": _in_record(b',"x":[{}', b",{}", b"]"),
    "equal keys in a record": _in_record(b"", b',"x":1'),
    "escaped quotes in a record": _in_record(b',"x":"', b'\\"', b'"'),
    "emoji in a record": _in_record(b',"x":"', "\N{PILE OF POO}".encode(), b'"'),
    "an open string": _in_record(b',"x":"', b'\\"'),
    "digits": _in_record(b',"x":', b"9"),
    "open brackets": _in_record(b',"x":', b"["),
    "spaces in a record": _in_record(b"", b" "),
    "keys in a record": lambda size: b'{"records":[%s]}' % (RECORD % numbered(b',"k%d":1', size)),
    "keys in records": lambda size: (
        b'{"records":[%s]}' % (RECORD % b"" + numbered(b',{"k%d":1}', size))
    ),
    "keys beside the records": lambda size: (
        b'{"records":[%s]%s}' % (RECORD % b"", numbered(b',"k%d":1', size))
    ),
    "equal keys beside the records": _beside(b"", b',"x":1'),
    "a long key beside the records": _beside(b',"\xf0\x9f\x92\xa9', b"a", b'":1'),
    "a long key in a record": _in_record(b',"\xf0\x9f\x92\xa9', b"a", b'":1'),
    "a long text in a record": _in_record(b',"tag":"\xf0\x9f\x92\xa9', b"a", b'"'),
    "arrays beside the records": _beside(b',"x":[[]', b",[]", b"]"),
    "records again and again": _beside(b"", b',"records":[1]'),
    "an array instead": lambda size: b"[[]" + repeated(b",[]", size) + b"]",
    "spaces before": lambda size: repeated(b" ", size) + b'{"records":[]}',
    "text instead": lambda size: b'"' + repeated(b"a", size) + b'"',
}


def _file(start: bytes, unit: bytes) -> Attack:
    head = b'--x7Qp\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    return lambda size: head + start + repeated(unit, size) + b"\r\n--x7Qp--\r\n"


BOUNDARY: Final = b"x7Qp"
MULTIPARTS: Final[dict[str, Attack]] = {
    "a file of line breaks": _file(b"", b"\r\n"),
    "a file of carriage returns": _file(b"", b"\r"),
    "a file of boundaries that are not": _file(b"", b"\r\n--x7Q"),
    "a file of dashes": _file(b"", b"-"),
    "a file of boundaries without a line": _file(b"", b"--x7Qp"),
    "a file without anything": _file(b"", b"\0"),
    "line breaks before the parts": lambda size: repeated(b"\r\n", size),
    "boundaries only": lambda size: repeated(b"--x7Qp\r\n", size),
    "a header without an end": lambda size: b"--x7Qp\r\nX: " + repeated(b"a", size),
    "headers without an end": lambda size: b"--x7Qp\r\n" + repeated(b"X: y\r\n", size),
    "line breaks after the parts": lambda size: b"--x7Qp--\r\n" + repeated(b"\r\n", size),
}
