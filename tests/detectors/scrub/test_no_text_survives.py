"""No text survives: a canary in every string of every shape, with spaces in it and without."""

import json
from io import BytesIO
from typing import Any, Final

from hypothesis import strategies as st

from detectors.formats import read_chunks
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case
from tests.detectors.scrub.raw_logs import CLAUDE_CODE_QUESTION, RAW
from tests.exploration import explored

# What may be written besides counts and times, and then only where it looks like a name; a canary
# that looks like one may stand there alone.
NAMES: Final = frozenset(
    {
        "model", "provider", "custom_llm_provider", "id", "request_id", "requestId", "tag", "name",
        "environment", "endpoint", "call_type", "request_tags",
    }
)  # fmt: skip
SHAPES: Final = [*RAW.values(), CLAUDE_CODE_QUESTION]
PROSE: Final = st.sampled_from(
    ["CANARY the customer said", "CANARY@example.com", "CANARY,", "(CANARY)", "CANARY\n",
     "\u200bCANARY", "дCANARY", "CANARY\ud800", '{"x": "CANARY said"}', '["CANARY said"]',
     "=CANARY()", "a CANARY" * 90]
)  # fmt: skip


def dump(document: Any) -> bytes:
    return json.dumps(document).encode()


def planted(value: Any, canary: str, *, is_prose: bool, key: str = "") -> Any:
    """The value with the canary in every string and every key that is not known."""
    if isinstance(value, dict):
        inner = {k: planted(v, canary, is_prose=is_prose, key=k) for k, v in value.items()}
        return inner | {canary: canary, "content": canary} if is_prose else inner
    if isinstance(value, list):
        return [planted(item, canary, is_prose=is_prose, key=key) for item in value]
    if isinstance(value, str) and value.startswith(("{", "[")):
        return json.dumps(planted(json.loads(value), canary, is_prose=is_prose, key=key))
    if isinstance(value, str) and (is_prose or key not in NAMES):
        return canary
    return value


def scrubbed(log: bytes) -> bytes:
    return b"".join(Scrubber().read(BytesIO(log)))


@explored(300, document=st.sampled_from(SHAPES), canary=PROSE)
def test_a_canary_in_every_string_is_in_no_output(document: dict[str, Any], canary: str) -> None:
    assert b"CANARY" not in scrubbed(dump(planted(document, canary, is_prose=True)))


@each_case("document", SHAPES)
def test_a_canary_that_looks_like_a_name_is_in_no_output_but_where_a_name_belongs(
    document: dict[str, Any],
) -> None:
    changed = planted(document, "CANARY", is_prose=False)
    assert b"CANARY" not in scrubbed(dump(changed))


def strings_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all strings in a document."""
    if isinstance(value, str):
        return [path]
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [found for key, inner in items for found in strings_of(inner, (*path, key))]


def replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], text)
    return copy


PLACES: Final = [(name, path) for name, shape in RAW.items() for path in strings_of(shape)]


@explored(600, place=st.sampled_from(PLACES), canary=PROSE)
def test_one_canary_in_an_otherwise_right_call_is_in_no_output(
    place: tuple[str, tuple[Any, ...]], canary: str
) -> None:
    name, path = place
    written = scrubbed(dump(replaced(RAW[name], path, canary)))
    assert b"CANARY" not in written
    for chunk in read_chunks(BytesIO(written)) if written else ():
        assert not chunk.invalid


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just("CANARY said"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([*NAMES, "request", "response", "body", "message", "usage", "result",
                         "messages", "input", "prompt", "metadata", "data", "usageDetails",
                         "startTime", "ts", "created", "input_tokens", "prompt_tokens",
                         "output_tokens", "completion_tokens", "prompt_tokens_details",
                         "cached_tokens", "call_type", "model_parameters", "sessionId"]),
        inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@explored(600, st.lists(JSON, max_size=3))
def test_any_json_is_read_without_errors_and_without_leaks(documents: list[Any]) -> None:
    scrubber = Scrubber()
    written = b"".join(scrubber.read(BytesIO(b"\n".join([b"{}", *map(dump, documents)]))))
    assert b"CANARY" not in written
    assert scrubber.summary.calls + scrubber.summary.dropped.total() >= len(documents) - (
        sum(isinstance(document, dict) and "data" in document for document in documents)
    )


@explored(
    200, st.binary(max_size=80), st.sampled_from([dump(shape) for shape in SHAPES]), st.data()
)
def test_any_bytes_are_read_without_an_unexpected_error(
    noise: bytes, text: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(text)))
    log = b"x\n" + text[:place] + noise.replace(b"\x1f\x8b", b"") + text[place:]
    scrubbed(log)


def test_a_line_is_the_same_whatever_the_text_of_the_answer_was() -> None:
    pair = RAW["chat pair"]
    other = replaced(pair, ("response", "choices", 0, "message", "content"), "something else")
    assert scrubbed(dump(pair)) == scrubbed(dump(other))
