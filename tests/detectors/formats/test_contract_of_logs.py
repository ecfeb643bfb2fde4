"""The counts-only contract in log files: at every depth, named, never repeated."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from detectors.errors import ContractError, UnreadableLogError
from detectors.formats import encode_records, read_chunks, records_of
from detectors.formats.columns import UNKNOWN
from detectors.formats.problems import MAX_NAMES
from tests.cases import data_of, each_case
from tests.worker.support.promises import sampled

TABLES = data_of(__file__)

CANARY = "CANARY the customer said"

CHAT: dict[str, Any] = TABLES["chat"]
WRAPPED_CHAT: dict[str, Any] = {"request": {"max_tokens": 5}, "response": CHAT}
MESSAGE: dict[str, Any] = TABLES["message"]
WRAPPED_MESSAGE: dict[str, Any] = {
    "request": {"max_tokens": 5},
    "response": {key: value for key, value in MESSAGE.items() if key != "ts"},
    "ts": "2026-01-01T00:00:00Z",
}
MESSAGE_BODY: dict[str, Any] = WRAPPED_MESSAGE["response"]
LINES = [CHAT, WRAPPED_CHAT, MESSAGE, WRAPPED_MESSAGE]


def log_of(*documents: Any) -> bytes:
    return "\n".join(json.dumps(document) for document in documents).encode()


def refusal(log: bytes, **options: Any) -> ContractError:
    stored: list[bytes] = []
    chunks = read_chunks(BytesIO(log), **options)
    with pytest.raises(ContractError) as caught:
        stored.extend(encode_records(records_of(chunk.columns)) for chunk in chunks)
    assert "CANARY" not in str(caught.value)
    assert b"CANARY" not in b"".join(stored)
    return caught.value


def places(document: Any, path: str = "") -> list[str]:
    """The paths of all objects in the document."""
    found = [path]
    for key, value in document.items():
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, dict):
            found += places(inner, f"{path}{key}.")
    return found


def planted(document: Any, path: str, key: str, value: Any) -> Any:
    """A copy of the document with one more member in the object at the path."""
    copy = json.loads(json.dumps(document))
    target = copy
    for name in path.split(".")[:-1]:
        target = target[name][0] if isinstance(target[name], list) else target[name]
    target[key] = value
    return copy


def texts_of(value: Any) -> Iterator[str]:
    """The texts in a value, which names of numbers are not."""
    if isinstance(value, str):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from texts_of(item)


@pytest.mark.parametrize(
    ("document", "path"),
    [(document, path) for document in LINES for path in places(document)],
    ids=lambda value: value if isinstance(value, str) else value.get("type", "line"),
)
@pytest.mark.parametrize("value", sampled([CANARY, [CANARY], 5, {"CANARY": 1}, None], 3), ids=repr)
def test_an_unknown_key_is_found_at_every_depth(document: Any, path: str, value: Any) -> None:
    if "usage." in path and "CANARY" not in json.dumps(list(texts_of(value))):
        log = log_of(document, planted(document, path, "content", value))
        [chunk] = read_chunks(BytesIO(log))
        assert chunk.rows == 2  # a number in a usage is read, and said to be unknown
        said = "".join(chunk.columns.get(UNKNOWN, ()))
        assert ("content" in said) == (value is not None)
        return
    error = refusal(log_of(document, planted(document, path, "content", value)))
    assert str(error) == (
        f"Contains fields we never accept ({path}content) on line 2: content is never accepted. "
        "Remove them, or run `tallystick scrub`."
    )


@each_case("document", LINES)
@each_case(
    "key",
    ["messages", "choices", "content", "prompt", "team", "Model", "usage ", "createdAt", "input"],
)
def test_keys_outside_the_allowlist_break_the_contract(document: Any, key: str) -> None:
    refusal(log_of(document, document | {key: CANARY}))


@each_case("document", LINES)
def test_an_object_instead_of_a_plain_value_breaks_the_contract(document: Any) -> None:
    error = refusal(log_of(document, document | {"tag": {"note": CANARY, "x": [{"y": CANARY}]}}))
    assert "(tag.note, tag.x, tag.y) on line 2:" in str(error)


def test_objects_arrays_and_unknown_keys_break_the_contract() -> None:
    error = refusal(log_of(CHAT, CHAT | {"usage": [{"note": CANARY}]}))
    assert "(usage.note) on line 2:" in str(error)
    iterations = MESSAGE["usage"] | {"iterations": [["x", {"note": CANARY}]]}
    error = refusal(log_of(MESSAGE, MESSAGE | {"usage": iterations}))
    assert "(usage.iterations, usage.iterations.note) on line 2:" in str(error)
    # A key that does not look like a name is not repeated.
    error = refusal(log_of(CHAT, planted(CHAT, "usage.", CANARY, 1) | {CANARY: 1}))
    assert "(a key that is not a field name, a key that is not a field name in usage)" in str(error)
    # Another providers line is checked by the format of the file.
    error = refusal(log_of(CHAT, MESSAGE))
    assert "(type) on line 2" in str(error)
    error = refusal(log_of(MESSAGE, CHAT))
    assert "(object) on line 2" in str(error)
    # Flat and wrapped keys do not mix.
    error = refusal(log_of(CHAT, WRAPPED_CHAT | {"usage": {}, "id": CANARY}))
    assert "(usage, id) on line 2:" in str(error)
    # The contract comes before the values.
    error = refusal(log_of(CHAT, {"content": CANARY, "usage": CANARY, "created": CANARY}))
    assert "(content) on line 2:" in str(error)
    # A line nested too deeply breaks the contract.
    error = refusal(log_of(CHAT) + b'\n{"model":' + b'{"a":' * 100_000)
    assert "(a key nested too deeply) on line 2:" in str(error)
    # The first ten fields are named with their lines.
    lines = [CHAT, CHAT | {"a": 1, "b": 2}, *[CHAT | {"content": CANARY}] * 20]
    error = refusal(log_of(*lines))
    assert "(a, b, content) on lines 2–10 and more: content is never accepted" in str(error)
    assert error.offenders[:2] == ("line 2: unknown fields a, b", "line 3: unknown field content")
    assert len(error.offenders) == 9


def unknown(count: int) -> dict[str, int]:
    return {f"k{number}": 1 for number in range(count)}


@each_case("count", [10, 11, 13, 100])
def test_all_unknown_fields_of_a_line_are_named(count: int) -> None:
    error = refusal(log_of(CHAT, CHAT | unknown(count)))
    assert f"({', '.join(unknown(count))}) on line 2: content" in str(error)
    header = ["ts", "provider", "model", "prompt_tokens", "completion_tokens", *unknown(count)]
    error = refusal(",".join(header).encode())
    assert f"({', '.join(unknown(count))}) in the header: content" in str(error)


def test_offenders_are_named_by_their_lines_however_many_there_are() -> None:
    named = MAX_NAMES
    for more in ([], [CHAT | {"content": CANARY}] * 500):
        log = log_of(CHAT, CHAT | unknown(named + 50), *more)
        for chunk_bytes in (1, 100, 5_000, 1 << 20):
            error = refusal(log, chunk_bytes=chunk_bytes)
            assert f"({', '.join(unknown(named))}) on line 2 and at least 50 more" in str(error)
    # Lines that follow one another are shown as a range.
    bad = CHAT | {"content": CANARY}
    error = refusal(log_of(CHAT, bad, CHAT, bad, bad, bad, CHAT, bad))
    assert "(content) on lines 2, 4–6, 8:" in str(error)


def test_a_line_of_very_many_values_is_not_decoded() -> None:
    for log in ([CHAT, CHAT | {"x": [{}] * 100_001}],):
        assert "(more than 100,000 values) on line 2:" in str(refusal(log_of(*log)))
        text = json.dumps(log).encode()
        assert "(more than 100,000 values) in object 2:" in str(refusal(text))


def test_the_same_fields_are_named_wherever_the_log_is_cut() -> None:
    log = log_of(*[CHAT if row % 3 else CHAT | {"content": CANARY} for row in range(40)])
    message = str(refusal(log))
    for chunk_bytes in range(1, 2_000, 37):
        assert str(refusal(log, chunk_bytes=chunk_bytes)) == message


def test_an_array_counts_by_object() -> None:
    log = json.dumps([CHAT, CHAT, CHAT | {"content": CANARY}], indent=2).encode()
    assert "(content) in object 3:" in str(refusal(log))


@each_case("key", ["id", "object", "service_tier", "system_fingerprint"])
def test_text_in_an_allowed_key_is_not_kept(key: str) -> None:
    stored = b""
    invalid = []
    for chunk in read_chunks(BytesIO(log_of(CHAT, CHAT | {key: f"{CANARY} " * 20}))):
        stored += encode_records(records_of(chunk.columns))
        invalid += chunk.invalid
    assert b"CANARY" not in stored
    assert [row.line for row in invalid] == [2]
    assert "CANARY" not in invalid[0].reason


WITHOUT_TEXT: dict[str, Any] = {
    "role": "assistant",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
}


def test_the_members_of_a_message_that_hold_no_text_are_read_and_dropped() -> None:
    full = MESSAGE | WITHOUT_TEXT
    response = {key: value for key, value in full.items() if key != "ts"}
    plain, *others = [
        [encode_records(records_of(chunk.columns)) for chunk in read_chunks(BytesIO(log_of(line)))]
        for line in (MESSAGE, full, {"ts": MESSAGE["ts"], "response": response})
    ]
    assert others == [plain, plain]


@each_case("name", ["stop_sequence", "stop_details", "container"])
def test_a_member_that_may_hold_text_must_be_null(name: str) -> None:
    for value in (CANARY, {}, {"id": CANARY}, 0):
        error = refusal(log_of(MESSAGE, MESSAGE | {name: value}))
        assert f"never accept ({name}) on line 2:" in str(error)
        error = refusal(log_of(WRAPPED_MESSAGE | {"response": MESSAGE_BODY | {name: value}}))
        assert f"never accept (response.{name}) on line 1:" in str(error)


def test_a_log_without_any_time_is_unreadable_and_a_reason_to_stop_is_a_word() -> None:
    lines = [MESSAGE, MESSAGE | {"stop_reason": CANARY}, MESSAGE | {"role": "a" * 41}]
    chunks = list(read_chunks(BytesIO(log_of(*lines))))
    assert [row.line for chunk in chunks for row in chunk.invalid] == [2, 3]
    assert all("CANARY" not in row.reason for chunk in chunks for row in chunk.invalid)
    # A log without any time is unreadable.
    untimed = CHAT | {"created": None}
    header = "ts,provider,model,prompt_tokens,completion_tokens"
    for log in (log_of(untimed), log_of(*[untimed] * 9), f"{header}\n,openai,m,1,2\n".encode()):
        with pytest.raises(UnreadableLogError, match="without a time"):
            list(read_chunks(BytesIO(log), chunk_bytes=50))
    [chunk] = read_chunks(BytesIO(log_of(untimed, CHAT)))
    assert [row.line for row in chunk.invalid] == [1]
    # The message explains where token counts go in json lines.
    record = {"ts": "2026-10-06", "model": "gpt-5.4", "prompt_tokens": 1, "completion_tokens": 1}
    message = str(refusal(log_of(CHAT, record)))
    assert "(prompt_tokens, completion_tokens) on line 2:" in message
    assert "In JSON Lines, token counts go under usage" in message
