"""`scrub` hashes prompts as the capture client does: whichever saw a call, the hash is the same."""

from typing import Any

from hypothesis import strategies as st

from detectors.formats.adapters.calls import hash_texts
from detectors.formats.adapters.exchanges import Exchange
from tallystick.reading.prompts import LEVEL_DIGITS, Hashes, hash_prefixes
from tests.cases import each_case
from tests.detectors.scrub import raw_logs
from tests.exploration import explored

MEMBERS = ("system", "instructions", "messages", "input", "prompt")
TEXTS = st.text(max_size=8) | st.integers(4_080, 4_110).map("é".__mul__)
PARTS: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.none() | st.integers() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries({}, optional={"text": inner, "content": inner, "role": TEXTS})
    ),
    max_leaves=25,
)


def of_scrub(body: dict[str, Any]) -> Hashes:
    hashes = hash_texts(*Exchange(**body).prompts())
    return (hashes[0], tuple(each[:LEVEL_DIGITS] for each in hashes)) if hashes else (None, None)


@explored(1_000, st.fixed_dictionaries({}, optional=dict.fromkeys(MEMBERS, PARTS)))
def test_a_request_has_the_clients_hash(body: dict[str, Any]) -> None:
    assert of_scrub(body) == hash_prefixes(body)


@each_case("length", [5_792, 5_793, 50_000, 400_000])
def test_long_prompts_have_the_clients_levels(length: int) -> None:
    body = {"system": "é" * 3_000, "messages": [{"content": "x" * (length - 3_001)}]}
    assert of_scrub(body) == hash_prefixes(body)


@each_case("deep", range(1, 12))
def test_they_stop_at_the_same_depth(deep: int) -> None:
    for wrap in (lambda inner: [inner], lambda inner: {"content": inner}):
        value: Any = "text"
        for _ in range(deep):
            value = wrap(value)
        assert of_scrub({"messages": value}) == hash_prefixes({"messages": value})


@each_case("request_", [raw_logs.CHAT_REQUEST, raw_logs.RESPONSE_REQUEST, raw_logs.MESSAGE_REQUEST])
def test_providers_requests_have_the_clients_hash(request_: dict[str, Any]) -> None:
    body = {name: request_[name] for name in MEMBERS if name in request_}
    assert of_scrub(body) == hash_prefixes(request_) != (None, None)


def test_a_lone_surrogate_has_the_same_hash() -> None:
    assert of_scrub({"prompt": "a\ud800"}) == hash_prefixes({"prompt": "a\ud800"})
