"""Which spans are the same call: every arrangement of repeats, wrappers and doubles."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

from service.models.imports.span_keys import (
    KEY,
    LINK,
    NO_DIGEST,
    NO_PARENT,
    SpanKey,
    digest,
    find_counted,
    leave_out,
    read_keys,
)
from tests.adversarial.growth import MOST_PER_SMALL_DOUBLING, growth, is_linear
from tests.cases import each_case

TRACE, OTHER_TRACE = b"t" * 16, b"u" * 16
SECOND = 1_000_000_000


def _id(name: str) -> bytes:
    return name.encode().ljust(8, b".")


def _key(
    name: str,
    parent: str = "",
    *,
    scope: str = "openai",
    response: str = "",
    start: float = 10,
    end: float = 20,
    counts: str = "service 100 20",
    trace: bytes = TRACE,
) -> SpanKey:
    times = (int(start * SECOND), int(end * SECOND))
    digests = (digest(scope), digest(response) if response else NO_DIGEST, digest(counts))
    return SpanKey(trace, _id(name), _id(parent) if parent else bytes(8), *times, *digests)


def _links(*pairs: tuple[str, str]) -> bytes:
    return b"".join(
        LINK.pack(TRACE, _id(name), _id(parent) if parent else NO_PARENT) for name, parent in pairs
    )


def _agent(name: str, parent: str = "", **fields: Any) -> SpanKey:
    return _key(name, parent, counts="sum", **fields)._replace(is_agent=True)


def _names(keys: list[SpanKey], links: bytes = b"", carried: int = 0) -> set[str]:
    counted = find_counted(keys, links, carried)
    return {keys[at].span_id.decode().strip(".") for at in counted}


def test_a_span_counts_once_in_its_trace() -> None:
    keys = [_key("a"), _key("b", "a", response="chatcmpl-1")]
    packed = b"".join(KEY.pack(*key[:8]) for key in keys)
    assert read_keys(packed) == keys
    assert [key.is_left_out for key in read_keys(leave_out(packed, [1]))] == [False, True]
    # The same span id in another trace is another span.
    assert len(find_counted([_key("a"), _key("a", trace=OTHER_TRACE, counts="other")], b"")) == 2
    # A span that is sent again counts once.
    keys = [_key("a"), _key("b", counts="other"), _key("a")]
    assert find_counted(keys, b"") == {0, 1}


def test_wrappers_do_not_count_whatever_is_between() -> None:
    keys = [_key("agent"), _key("chain", "agent"), _key("leaf", "chain"), _key("leaf2", "agent")]
    for order in permutations(keys):
        assert _names(list(order)) == {"leaf", "leaf2"}
    # Spans that are their own ancestors end.
    assert _names([_key("a", "a")]) == {"a"}
    assert _names([_key("a", "b"), _key("b", "a")]) <= {"a", "b"}
    assert _names([_key("a", "b")], _links(("b", "c"), ("c", "b"))) == {"a"}


def test_spans_without_counts_may_be_between_a_wrapper_and_its_calls() -> None:
    keys = [_key("agent"), _key("leaf", "tool")]
    assert _names(keys, _links(("tool", "step"), ("step", "agent"))) == {"leaf"}


def test_a_call_whose_parents_are_missing_is_below_the_first_span_of_its_trace() -> None:
    keys = [_key("root"), _key("a", "lost", start=11), _key("b", "lost", start=30, end=40)]
    for order in permutations(keys):
        assert _names(list(order)) == {"a", "b"}
    below = [*keys, _key("c", "d", start=12, counts="c")]
    assert _names(below, _links(("d", "lost too"))) == {"a", "b", "c"}


def test_a_trace_that_begins_twice_says_nothing_of_a_lost_span() -> None:
    keys = [_key("root"), _key("a", "lost", counts="a")]
    assert _names(keys, _links(("other", ""))) == {"root", "a"}
    assert _names([*keys, _key("root2", counts="b")]) == {"root", "root2", "a"}
    assert _names([_key("root"), _key("a", "root", counts="a"), _key("b", counts="b")]) == {
        "a",
        "b",
    }


@each_case(("start", "end", "counted"), [(11, 19, False), (9, 19, True)])
def test_an_agent_is_around_the_calls_in_its_time_whose_parents_are_missing(
    start: float, end: float, counted: bool
) -> None:
    keys = [_agent("agent", "above"), _key("a", "lost", start=start, end=end)]
    for order in permutations(keys):
        assert _names(list(order)) == {"a"} | ({"agent"} if counted else set())
    elsewhere = [keys[0], keys[1]._replace(trace_id=OTHER_TRACE)]
    assert _names(elsewhere) == {"agent", "a"}
    beside = [_agent("agent", "above"), _key("a", "step", start=11, end=19)]
    assert _names(beside, _links(("step", "above"), ("above", ""))) == {"agent", "a"}


def test_what_is_neither_first_nor_an_agent_counts_beside_calls_whose_parents_are_missing() -> None:
    assert _names([_key("call", "above"), _key("a", "lost", start=11, counts="a")]) == {"call", "a"}


def test_calls_in_a_wrapper_that_has_counted_count_never() -> None:
    late = _key("late", "step", start=30, end=40, counts="late")
    links = _links(("step", "wrapper"))
    assert _names([_key("wrapper"), late], links, carried=1) == set()
    assert _names([_key("wrapper"), late._replace(parent_id=_id("lost"))], carried=1) == set()
    agent = _agent("agent", "above", start=10, end=50)
    inside = _key("late", "lost", start=30, end=40, counts="late")
    assert _names([agent, inside], carried=1) == set()
    assert _names([agent, inside._replace(end=60 * SECOND)], carried=1) == {"late"}
    # One that had a call of its own when it came has not counted.
    left_out = _key("wrapper")._replace(is_left_out=True)
    before = _key("before", "wrapper", start=11, end=12)
    assert _names([before, left_out, late], links, carried=2) == {"late"}
    assert _names([left_out, late], links, carried=1) == {"late"}
    # The previous release left its mark on none.
    assert _names([before, _key("wrapper"), late], links, carried=2) == {"late"}


def test_a_late_wrapper_of_calls_whose_parents_are_missing_counts_never() -> None:
    calls = [_key("a", "lost", start=11, end=12), _key("b", "lost", start=13, end=14)]
    assert _names([*calls, _key("root", end=9_000)], carried=2) == set()
    assert _names([*calls, _agent("agent", "above")], carried=2) == set()


@each_case("order", [1, -1])
def test_two_scopes_that_trace_one_call_count_once(order: int) -> None:
    outer = _key("outer", scope="langchain", start=10, end=20)
    inner = _key("inner", scope="openai", start=11, end=19, trace=OTHER_TRACE)
    assert _names([outer, inner][::order]) == {"inner"}


def test_spans_of_one_response_are_one_call() -> None:
    outer = _key("outer", scope="litellm", response="chatcmpl-1")
    inner = _key("inner", scope="openai", start=11, end=19, trace=OTHER_TRACE)
    assert _names([outer, inner]) == {"outer"}
    # One response counts once even if the counts differ.
    outer = _key("outer", scope="traceloop", response="msg_1", counts="44")
    inner = _key("inner", scope="anthropic", response="msg_1", counts="43", start=11)
    assert _names([outer, inner]) == {"inner"}
    # A log after a stream is the same call.
    stream = _key("stream", scope="anthropic", response="msg_1")
    log = _key("log", scope="logfire", start=20.2, end=20.2, trace=OTHER_TRACE)
    assert _names([log, stream]) == {"stream"}


@each_case(
    "other",
    [
        _key("b", start=11, end=19),  # of the same scope
        _key("b", scope="langchain", counts="others", start=9, end=21),
        _key("b", scope="langchain", start=15, end=25),  # begins before it ends, but not inside
        _key("b", scope="langchain", start=30, end=40),
        _key("b", scope="langchain", start=9, end=21, response="chatcmpl-2"),
    ],
)
def test_other_calls_count_too(other: SpanKey) -> None:
    assert _names([_key("a", response="chatcmpl-1"), other]) == {"a", "b"}


def test_equal_calls_are_as_many_as_their_ids() -> None:
    keys = [
        _key("a", response="chatcmpl-7"),
        _key("b", response="chatcmpl-7", scope="litellm", start=90, end=99),
    ]
    assert _names(keys) == {"a", "b"}
    # Each of many equal calls has one double.
    inner = [_key(f"i{at}", start=at + 0.1, end=at + 0.2, trace=OTHER_TRACE) for at in range(50)]
    outer = [_key(f"o{at}", scope="langchain", start=at, end=at + 0.9) for at in range(49)]
    assert _names([*outer, *inner]) == {f"i{at}" for at in range(50)}
    # What an earlier import counted never counts again.
    before = _key("leaf", "agent", scope="openai", start=11, end=19)
    agent, again = _key("agent"), _key("leaf", "agent", start=11, end=19)
    double = _key("double", scope="langchain", start=10, end=20, trace=OTHER_TRACE)
    new = _key("new", counts="new")
    assert _names([before, agent, again, double, new], carried=1) == {"new"}


def test_three_scopes_that_trace_one_call_count_once() -> None:
    keys = [
        _key("a", scope="langchain", start=10, end=20),
        _key("b", scope="litellm", start=11, end=19, trace=OTHER_TRACE),
        _key("c", scope="openai", start=12, end=18, trace=b"v" * 16),
    ]
    for order in permutations(keys):
        assert _names(list(order)) == {"c"}


@each_case(("scopes", "counted"), [(20, 1), (21, 21)])
def test_made_up_scopes_are_not_compared(scopes: int, counted: int) -> None:
    keys = [_key(f"{at}", scope=f"scope {at}", response="chatcmpl-1") for at in range(scopes)]
    assert len(find_counted(keys, b"")) == counted


def _chain(count: int) -> tuple[list[SpanKey], bytes]:
    return [_key(f"{at}", f"{at - 1}") for at in range(count)], b""


def _ring(count: int) -> tuple[list[SpanKey], bytes]:
    return [_key(f"{at}", f"{(at + 1) % count}") for at in range(count)], b""


def _below_a_ring_of_links(count: int) -> tuple[list[SpanKey], bytes]:
    links = _links(*((f"l{at}", f"l{(at + 1) % count}") for at in range(count)))
    return [_key(f"{at}", f"l{at}") for at in range(count)], links


def _of_several_scopes(count: int) -> tuple[list[SpanKey], bytes]:
    return [_key(f"{at}", scope=f"{at % 20}", start=at / 1e6) for at in range(count)], b""


def _agents_around_orphans(count: int) -> tuple[list[SpanKey], bytes]:
    half = count // 2
    agents = [_agent(f"a{at}", "above", start=at, end=at + half) for at in range(half)]
    return agents + [_key(f"{at}", "lost", start=half, end=2 * half) for at in range(half)], b""


def _orphans_below_a_chain(count: int) -> tuple[list[SpanKey], bytes]:
    links = _links(*((f"l{at}", f"l{at + 1}") for at in range(count)))
    return [_key("root"), *(_key(f"{at}", f"l{at}") for at in range(count))], links


@each_case(
    "arrange",
    [
        *(_chain, _ring, _below_a_ring_of_links, _of_several_scopes),
        *(_agents_around_orphans, _orphans_below_a_chain),
    ],
)
def test_twice_the_spans_take_at_most_twice_the_time(
    arrange: Callable[[int], tuple[list[SpanKey], bytes]],
) -> None:
    for _attempt in range(3):
        seconds = growth(
            lambda made: find_counted(*made, carried=len(made[0]) // 4),
            arrange,
            2_000,
            MOST_PER_SMALL_DOUBLING,
        )
        if is_linear(seconds, MOST_PER_SMALL_DOUBLING):
            break
    assert is_linear(seconds, MOST_PER_SMALL_DOUBLING)
