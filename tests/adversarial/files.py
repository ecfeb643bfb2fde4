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

_STRINGS: Final[dict[str, tuple[bytes, bytes, bytes]]] = {
    "an open string": (b'{"x":"', b"a", b""),
    "an open string of escaped quotes": (b'{"x":"', b'\\"', b""),
    "an open string of backslashes": (b'{"x":"', b"\\\\", b""),
    "an open string of quotes and commas": (b'{"x":"', b'\\",', b""),
    "a string of escapes": (b'{"model":"', b"\\u0041", b'"}'),
    "a string of emoji": (b'{"tag":"', "\N{PILE OF POO}".encode(), b'"}'),
    "a string of invalid UTF-8": (b'{"tag":"', b"\xff", b'"}'),
    "a string of control characters": (b'{"tag":"', b"\x01", b'"}'),
    "a key of escapes": (b'{"', b"\\n", b'":1}'),
    "quotes": (b"", b'"', b""),
    "pairs of quotes": (b"{", b'"",', b"}"),
    "backslashes": (b"{", b"\\", b"}"),
    "open brackets": (b"", b"[", b""),
    "open objects": (b"", b'{"a":', b""),
    "brackets of a value": (b'{"tag":', b"[", b"}"),
    "closing brackets": (b"{", b"}", b""),
    "empty arrays": (b'{"tag":[[]', b",[]", b"]}"),
    "empty objects": (b'{"tag":[{}', b",{}", b"]}"),
    "arrays of pairs": (b'{"tag":[[]', b",[[],[]]", b"]}"),
    "digits": (b'{"created":', b"9", b"}"),
    "decimals": (b'{"latency_ms":0.', b"1", b"}"),
    "a negative exponent": (b'{"latency_ms":1e-', b"1", b"}"),
    "equal keys": (b'{"model":"m"', b',"model":"m"', b"}"),
    "equal unknown keys": (b'{"model":"m"', b',"x":1', b"}"),
    "commas": (b"{", b",", b"}"),
    "colons": (b"{", b":", b"}"),
    "spaces in an object": (CALL[:-1], b" ", b"}"),
    "spaces and a comma": (CALL[:-1], b" \t", b",}"),
    "commas and spaces": (b"{", b", ", b"}"),
    "NULs": (b"", b"\0", b""),
}
_NUMBERED: Final[dict[str, tuple[bytes, bytes, bytes]]] = {
    "many keys": (b'{"model":"m"', b',"k%d":1', b"}"),
    "many keys in usage": (b'{"model":"m","usage":{"a":1', b',"k%d":1', b"}}"),
    "many keys of a label": (b'{"tag":{"a":1', b',"k%d":1', b"}}"),
    "many keys with objects": (b'{"tag":[{}', b',{"k%d":{}}', b"]}"),
    "keys that are not names": (b'{"model":"m"', b',"%d":[]', b"}"),
}


def _iterations(item: bytes) -> Attack:
    return lambda size: MESSAGE % (b',"iterations":[{}' + repeated(item, size) + b"]")


def _in_line(attack: Attack, start: bytes = CALL) -> Attack:
    return lambda size: start + b"\n" + attack(size) + b"\n"


def _in_array(attack: Attack) -> Attack:
    return lambda size: b"[" + CALL + b"," + attack(size) + b"]"


_OBJECTS: Final[dict[str, Attack]] = {
    **{name: _after(*parts) for name, parts in _STRINGS.items()},
    **{name: _counted(*parts) for name, parts in _NUMBERED.items()},
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
    "an open quote": _csv(b'"', b"a"),
    "an open quote over lines": _csv(b'"', b"a\n"),
    "an open quote over CRLF lines": _csv(b'"', b"a\r\n"),
    "doubled quotes": _csv(b'"', b'""'),
    "quotes in a cell": _csv(b"a", b'"'),
    "cells of quotes": _csv(b"", b'"",'),
    "rows of one quote": _csv(b"", b'"\n'),
    "rows of three quotes": _csv(b"", b'"""\n'),
    "cells that span lines": _csv(b'"', b'\n","'),
    "cells of two letters that span lines": _csv(b'"', b'ab\n","'),
    "cells of two letters": _csv(b"", b"ab,"),
    "commas in rows": _csv(b"", b","),
    "a cell": _csv(b"", b"a"),
    "a cell of emoji": _csv(b"", "\N{PILE OF POO}".encode()),
    "digits": _csv(b"2026-01-01,openai,gpt-5.4,", b"9", b",2\n"),
    "decimals": _csv(b"2026-01-01,openai,gpt-5.4,0.", b"1", b",2\n"),
    "rows of digits": _csv(b"", b"2026-01-01,openai,gpt-5.4," + b"9" * 4_000 + b",2\n"),
    "rows of long cells": _csv(b"", b"2026-01-01,openai," + b"x" * 5_000 + b",1,2\n"),
    "columns": _after(HEADER[:-1], b",x", b"\n" + ROW),
    "columns of field names": _after(HEADER[:-1], b",ts", b"\n" + ROW),
    "columns of two letters": _after(HEADER[:-1], b",xy", b"\n" + ROW),
    "columns with numbers": _counted(HEADER[:-1], b",c%d", b"\n"),
    "columns of quotes": _after(HEADER[:-1] + b',"', b'""', b'"\n'),
    "columns over lines": _after(b'"', b"\n", b'",' + HEADER),
    "a header of spaces": _after(HEADER[:-1], b" ", b"\n" + ROW),
    "rows of one cell": _csv(b"", b"1\n"),
    "rows of commas": _csv(b"", b",,,,\n"),
    "rows of bad values": _csv(b"", ROW.replace(b",1,", b",-1,") + b"\n"),
    "rows, every other bad": _csv(b"", ROW + b"\n" + ROW.replace(b",1,", b",x,") + b"\n"),
    "rows with control characters": _csv(b"", ROW.replace(b"gpt", b"\x01") + b"\n"),
    "rows of invalid UTF-8": _csv(b"", ROW.replace(b"gpt", b"\xff") + b"\n"),
    "rows in quotes": _csv(b"", b'"2026-01-01","openai","gpt-5.4","1","2"\n'),
    "rows with CRLF and LF in turn": _csv(b"", ROW + b"\r\n" + ROW + b"\n"),
    "rows with carriage returns": _csv(b"", ROW + b"\r"),
    "blank rows": _csv(ROW, b"\n"),
    "blank CRLF rows": _csv(ROW, b"\r\n"),
    "blank rows first": lambda size: repeated(b"\n", size) + HEADER + ROW,
    "ordinary rows": _csv(b"", ROW + b"\n"),
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
