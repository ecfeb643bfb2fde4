"""A hundred hostile bodies: each is refused in our own words, or taken without its poison."""

import json
from typing import Final

import pytest

from detectors.errors import ContractError, DetectorError, MalformedJSONError
from detectors.formats import decode_batch, encode_records
from tests.cases import each_case

RECORD: Final = (
    b'{"ts":"2026-01-01T00:00:00Z","provider":"openai","model":"m",'
    b'"prompt_tokens":1,"completion_tokens":2%s}'
)
DEEP: Final = 100_000


def batch(record: bytes) -> bytes:
    return b'{"records":[' + record + b"]}"


def with_member(name: bytes, value: bytes) -> bytes:
    return batch(RECORD % (b',"' + name + b'":' + value))


def with_prompt_tokens(value: bytes) -> bytes:
    return with_member(b"prompt_tokens", value)


GOOD: Final = batch(RECORD % b"")

MALFORMED: Final = [
    b"", b" ", b"\n", b"{", b"}", b"[", b'"', b"{]", b"nul", b"tru", b"None", b"undefined",
    b"NaN", b"Infinity", b"-Infinity", b"\x00", GOOD + b"\x00", b"\x00" + GOOD, GOOD + GOOD,
    GOOD[:-1], GOOD[:-2], GOOD[: len(GOOD) // 2], GOOD + b",", GOOD + b"garbage",
    GOOD.replace(b'"', b"'"), GOOD.replace(b",", b",,"), GOOD.replace(b"}]", b",}]"),
    GOOD.replace(b"]}", b",]}"), GOOD.replace(b":", b"="), b"/* c */" + GOOD, GOOD + b"// c",
    b"\xef\xbb\xbf" + GOOD, GOOD.decode().encode("utf-16"), GOOD.decode().encode("utf-16-le"),
    GOOD.decode().encode("utf-16-be"), GOOD.decode().encode("utf-32"), b"\x1f\x8b\x08\x00",
    b"\x89PNG\r\n\x1a\n", b"<xml/>", b"records=1", b"ts,provider\n1,2", b"\xff\xfe", b"\xff" * 99,
    b"\x80\x04\x95", bytes(range(256)), b"[" * DEEP, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP,
    b'{"records":' * DEEP, b'{"records":[' + b"[" * DEEP, b'{"records":[' + b'{"tag":' * DEEP,
    with_member(b"tag", b"[" * DEEP + b"]" * DEEP), with_member(b"x", b'{"x":' * DEEP),
    with_prompt_tokens(b"NaN"), with_prompt_tokens(b"Infinity"), with_prompt_tokens(b"-Infinity"),
    with_prompt_tokens(b"01"), with_prompt_tokens(b"+1"), with_prompt_tokens(b"1."),
    with_prompt_tokens(b".5"), with_prompt_tokens(b"0x10"), with_prompt_tokens(b"1_000"),
    with_prompt_tokens(b"1e"), with_prompt_tokens(b"--1"), with_prompt_tokens(b""),
    with_member(b"latency_ms", b"NaN"), with_member(b"latency_ms", b"nan"),
    with_member(b"tag", b'"\xff"'), with_member(b"tag", b'"\xc3\x28"'),
    with_member(b"tag", b'"\xed\xa0\x80"'), with_member(b"tag", b'"\xc0\xaf"'),
    with_member(b"tag", b'"\xf4\x90\x80\x80"'), with_member(b"tag", b'"\\ud800"'),
    with_member(b"tag", b'"\\ud800x"'), with_member(b"tag", b'"\\udc00"'),
    with_member(b"tag", b'"\\x41"'), with_member(b"tag", b'"\\u12"'),
    with_member(b"x", b"9" * 5_000 + b"x"), with_member(b"x", b"9" * 5_000 + b',"y":NaN'),
    with_member(b"x", b"9" * 5_000 + b',"y":' + b"[" * DEEP),
    with_member(b"tag", b'"\x00"'), with_member(b"tag", b'"a\nb"'), with_member(b"\xff", b"1"),
]  # fmt: skip

REFUSED: Final = [
    b"null", b"true", b"0", b"1e400", b'"x"', b"[]", b"{}", b'{"records":1e400}',
    b'{"records":[null]}', b'{"records":[[]]}', b'{"records":{"0":{}}}', b'{"records":"[]"}',
    with_prompt_tokens(b"1e400"), with_prompt_tokens(b"-1e400"), with_prompt_tokens(b"true"),
    with_prompt_tokens(b'"5"'), with_prompt_tokens(b"1.0"), with_prompt_tokens(b"1e2"),
    with_prompt_tokens(b"9223372036854775808"), with_prompt_tokens(b"18446744073709551616"),
    with_prompt_tokens(b"-9223372036854775809"), with_prompt_tokens(b"9" * 400),
    with_prompt_tokens(b"9" * 5_000), with_prompt_tokens(b"-" + b"9" * 5_000),
    with_prompt_tokens(b"null"), with_member(b"latency_ms", b"1e400"),
    with_member(b"latency_ms", b"1e308"), with_member(b"latency_ms", b"9" * 5_000),
    with_member(b"tag", b'"\\u0000"'), with_member(b"tag", b'"\\u001b"'),
    with_member(b"tag", b'"\\u007f"'), with_member(b"tag", b'"\\u0085"'),
    with_member(b"tag", b'"\xc2\x80"'), with_member(b"tag", b'"\x7f"'),
    with_member(b"tag", b'"' + b"x" * 1_000_000 + b'"'), with_member(b"tag", b"{}"),
    with_member(b"Tag", b'"x"'), with_member(b"tag ", b'"x"'), with_member(b"\\u0000", b"1"),
    with_member(b"__proto__", b"{}"), with_member(b"__class__", b'"x"'), with_member(b"", b"1"),
    b'{"records":[' + b",".join([b'{"a":1}'] * 5_000) + b"]}",
    b'{"records":[{' + b",".join(b'"k%d":1' % n for n in range(20_000)) + b"}]}",
]  # fmt: skip

TAKEN: Final = [
    GOOD.replace(b'"model":"m"', b'"model":"CANARY","model":"m"'),
    GOOD.replace(b'"model":"m"', b'"model":{"CANARY":1},"model":"m"'),
    GOOD.replace(b'{"records"', b'{"records":["CANARY"],"records"'),
    GOOD.replace(b'"model"', b'"mod\\u0065l"'),
    b" \t\r\n" + GOOD + b" \t\r\n",
    with_member(b"tag", b'"\\ud83d\\ude00"'),
    with_member(b"latency_ms", b"1e-400"),
    with_prompt_tokens(b"-0"),
]


def test_the_corpus_holds_a_hundred_bodies() -> None:
    assert len(MALFORMED) + len(REFUSED) + len(TAKEN) >= 100


@each_case("raw", MALFORMED)
def test_text_that_is_not_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedJSONError) as caught:
        decode_batch(raw)
    assert str(caught.value).startswith("This is not JSON")


@each_case("raw", REFUSED)
def test_json_that_breaks_the_contract_is_refused(raw: bytes) -> None:
    with pytest.raises(ContractError) as caught:
        decode_batch(raw)
    assert len(str(caught.value)) < 2_000


@each_case("raw", TAKEN)
def test_harmless_fields_of_a_hostile_call_are_recorded(raw: bytes) -> None:
    assert b"CANARY" not in encode_records(decode_batch(raw))


def test_a_body_cut_off_anywhere_is_malformed() -> None:
    raw = json.dumps(json.loads(GOOD)).encode()
    for end in range(len(raw)):
        with pytest.raises(MalformedJSONError):
            decode_batch(raw[:end])


def test_a_body_with_any_byte_changed_never_raises_anything_else() -> None:
    for position in range(len(GOOD)):
        for byte in (0x00, 0x22, 0x2C, 0x5C, 0x7B, 0x7D, 0x80, 0xFF):
            changed = GOOD[:position] + bytes([byte]) + GOOD[position + 1 :]
            try:
                decode_batch(changed)
            except DetectorError:
                continue
