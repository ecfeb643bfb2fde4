"""Adversarial log files: each function returns about `size` bytes of one kind of attack.

The reader's CPU time must grow with the bytes and not faster, and its memory must not.
"""

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Callable
from typing import Final

from tests.cases import data_of

Attack = Callable[[int], bytes]

CALL: Final = (
    b'{"created":1767225600,"model":"gpt-5.4","usage":{"prompt_tokens":1,"completion_tokens":2}}'
)
MESSAGE: Final = (
    b'{"type":"message","created":1767225600,"model":"claude-opus-4","usage":{"input_tokens":1,'
    b'"output_tokens":2%s}}'
)
HEADER: Final = b"ts,provider,model,prompt_tokens,completion_tokens\n"
ROW: Final = b"2026-01-01T00:00:00Z,openai,gpt-5.4,1,2"


def repeated(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit) + 1)


def numbered(template: bytes, size: int) -> bytes:
    """Repeat a template with a different number each time."""
    return b"".join(template % number for number in range(size // len(template % 10_000_000)))


def _after(start: bytes, unit: bytes, end: bytes = b"") -> Attack:
    return lambda size: start + repeated(unit, size) + end


def _counted(start: bytes, template: bytes, end: bytes = b"") -> Attack:
    return lambda size: start + numbered(template, size) + end


def _repeated(start: str, unit: str, end: str = "") -> Attack:
    attack = _counted if "%d" in unit else _after
    return attack(start.encode(), unit.encode(), end.encode())


TABLES: Final = data_of(__file__)

# gzip and ZIP


def member(text: bytes) -> bytes:
    """Return a gzip member of one stored block, without a name."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    return packer.compress(text) + packer.flush()


def _members(start: bytes, text: bytes) -> Attack:
    return _after(member(start), member(text))


def _after_long_element(size: int) -> bytes:
    """Return members of one byte after 4 KB that unpack to an open element of 3 MB."""
    return gzip.compress(b"[" + CALL + b',{"x":[[]' + b",[]" * 1_000_000) + repeated(
        member(b","), size
    )


def _packed(attack: Attack) -> Attack:
    """Pack a text; its size is that of the text."""
    return lambda size: gzip.compress(attack(size), 1)


def _zipped(attack: Attack, method: int) -> Attack:
    def pack(size: int) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("usage.jsonl", attack(size))
        return file.getvalue()

    return pack


def _entries(size: int) -> bytes:
    """Return an archive of many empty folders and one log."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(size // 140):
            archive.writestr(f"{number:020}/", b"")
        archive.writestr("usage.jsonl", CALL)
    return file.getvalue()


ARCHIVES: Final[dict[str, Attack]] = {
    "gzip members of one byte in an open array": _members(b"[" + CALL + b',{"x":"', b"a"),
    "gzip members of one byte after a long element": _after_long_element,
    "gzip members of one element": _members(b"[" + CALL, b","),
    "gzip members of one line break": _members(CALL, b"\n"),
    "gzip members of one letter in a line": _members(CALL + b"\n{", b"a"),
    "gzip members of one byte before the first line ends": _members(b"", b" "),
    "gzip members of a CSV, a byte each": _members(HEADER + ROW, b"2"),
    "gzip members without content": _members(CALL + b"\n", b""),
    "gzip members, ordinary": _members(CALL + b"\n", (CALL + b"\n") * 3),
    "gzip padding": lambda size: member(CALL + b"\n") + bytes(size) + member(CALL),
    "gzip of line breaks": _packed(_after(CALL, b"\n")),
    "gzip of an open string": _packed(_after(b"[" + CALL + b',{"x":"', b"a")),
    "ZIP of line breaks": _zipped(_after(CALL, b"\n"), zipfile.ZIP_DEFLATED),
    "ZIP of ordinary lines": _zipped(_after(b"", CALL + b"\n"), zipfile.ZIP_STORED),
    "ZIP of many folders": _entries,
}

# JSON, as lines and in an array


def _iterations(item: bytes) -> Attack:
    return lambda size: MESSAGE % (b',"iterations":[{}' + repeated(item, size) + b"]")


def _in_line(attack: Attack, start: bytes = CALL) -> Attack:
    return lambda size: start + b"\n" + attack(size) + b"\n"


def _in_array(attack: Attack) -> Attack:
    return lambda size: b"[" + CALL + b"," + attack(size) + b"]"


_OBJECTS: Final[dict[str, Attack]] = {
    **{name: _repeated(*parts) for name, parts in TABLES["objects"].items()},
    "a string of invalid UTF-8": _after(b'{"tag":"', b"\xff", b'"}'),
    "iterations without a value": _iterations(b",{}"),
    "iterations with wrong values": _iterations(b',{"type":1}'),
    "iterations that are numbers": _iterations(b",1"),
}
_MANY: Final[dict[str, bytes]] = {
    "numbers": b"1",
    "empty texts": b'""',
    "empty objects": b"{}",
    "empty arrays": b"[]",
    "letters": b"a",
    "open quotes": b'"',
    "escaped quotes": b'{"x":"\\"',
    "brackets": b"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    "bad values": CALL.replace(b"1,", b"-1,"),
    "bad values everywhere": b'{"model":1,"created":"x","usage":{"prompt_tokens":-1},"tag":1}',
    "control characters": CALL[:-1] + b',"tag":"\\n"}',
    "wrapped calls": b'{"response":%s}' % CALL.replace(b"1767225600", b"1767225601"),
    "huge numbers": CALL.replace(b"1,", b"9" * 50 + b","),
    "ordinary calls": CALL,
}
LINES: Final[dict[str, Attack]] = {
    **{f"a line of {name}": _in_line(attack) for name, attack in _OBJECTS.items()},
    "an Anthropic line of iterations": _in_line(_iterations(b",{}"), MESSAGE % b""),
    **{f"lines of {name}": _after(CALL + b"\n", text + b"\n") for name, text in _MANY.items()},
    "lines of calls and numbers in turn": _after(b"", CALL + b"\n1\n"),
    "lines of unknown keys": _counted(CALL + b"\n", b'{"k%d":1}\n'),
    "line breaks": _after(CALL, b"\n"),
    "line breaks first": lambda size: repeated(b"\n", size) + CALL,
    "CRLF line breaks": _after(CALL, b"\r\n"),
    "carriage returns": _after(CALL, b"\r", b"\n"),
    "calls with CRLF and LF in turn": _after(b"", CALL + b"\r\n" + CALL + b"\n"),
    "spaces first": lambda size: repeated(b" ", size) + CALL,
    "lines of spaces": _after(CALL + b"\n", b" " * 99 + b"\n"),
    "one line of spaces": _after(CALL + b"\n", b" "),
    "one line without an end": _after(b"", CALL),
    "text": _after(b"", b"the customer said, "),
}
ARRAYS: Final[dict[str, Attack]] = {
    **{f"an element of {name}": _in_array(attack) for name, attack in _OBJECTS.items()},
    **{
        f"elements of {name}": _after(b"[" + CALL, b"," + text, b"]")
        for name, text in _MANY.items()
    },
    "elements on lines": _after(b"[" + CALL, b",\r\n" + CALL, b"]"),
    "commas in an array": _after(b"[" + CALL, b",", b"]"),
    "commas and spaces in an array": _after(b"[" + CALL, b", \n", b"]"),
    "an array of numbers only": _after(b"[1", b",1", b"]"),
    "elements of unknown keys": _counted(b"[" + CALL, b',{"k%d":1}', b"]"),
    "spaces before the array": lambda size: repeated(b" \n", size) + b"[" + CALL + b"]",
    "spaces after the bracket": lambda size: b"[" + repeated(b" ", size) + CALL + b"]",
    "spaces after an element": _after(b"[" + CALL, b" ", b"]"),
    "spaces after the array": _after(b"[" + CALL + b"]", b" \n"),
    "brackets after the array": _after(b"[" + CALL + b"]", b"]"),
}

# CSV


def _csv(*parts: bytes) -> Attack:
    return _after(HEADER + parts[0], *parts[1:])


CSVS: Final[dict[str, Attack]] = {
    **{name: _repeated(*parts) for name, parts in TABLES["csv"].items()},
    "rows of digits": _csv(b"", b"2026-01-01,openai,gpt-5.4," + b"9" * 4_000 + b",2\n"),
    "rows of long cells": _csv(b"", b"2026-01-01,openai," + b"x" * 5_000 + b",1,2\n"),
    "rows of invalid UTF-8": _csv(b"", ROW.replace(b"gpt", b"\xff") + b"\n"),
    "blank rows first": lambda size: repeated(b"\n", size) + HEADER + ROW,
}
FILES: Final[dict[str, Attack]] = {
    **ARCHIVES,
    **LINES,
    **ARRAYS,
    **{f"CSV, {name}": attack for name, attack in CSVS.items()},
}


def escaped(name: str) -> str:
    """Return a name that suits as a test's ID."""
    return json.dumps(name)[1:-1].replace(" ", "_")
