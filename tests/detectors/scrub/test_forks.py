"""Codex sessions that were forked: what a fork copies counts once, what is its own counts too."""

from collections.abc import Sequence
from itertools import accumulate, combinations, permutations
from typing import Any, Final

from tests.cases import each_case
from tests.detectors.scrub.test_repetitions import Row, read

PARENT, CHILD, GRANDCHILD, SIBLING = (f"019c0000-0000-7000-8000-00000000000{n}" for n in range(4))
Turn = tuple[int, int]  # the input and output of a call
FIRST: Final[list[Turn]] = [(9_000, 300), (11_000, 400)]


def meta(name: str, at: str, forked: str | None = None, spawned: str | None = None) -> Row:
    source: Any = {"subagent": {"thread_spawn": {"parent_thread_id": spawned, "depth": 1}}}
    payload = {"id": name, "timestamp": at, "source": source if spawned else "cli"}
    return line("session_meta", at, payload | ({"forked_from_id": forked} if forked else {}))


def line(kind: str, at: str, payload: Row) -> Row:
    return {"timestamp": at, "type": kind, "payload": payload}


def turns(told: list[Turn], times: list[str], before: Sequence[Turn] = ()) -> list[Row]:
    """Return events of these calls, after others that the session counts too."""
    totals = list(
        accumulate(
            [*before, *told], lambda so_far, turn: tuple(map(sum, zip(so_far, turn, strict=True)))
        )
    )
    rows = [line("turn_context", at, {"model": "gpt-5.4"}) for at in times[:1]]
    for (given, answered), total, at in zip(told, totals[len(before) :], times, strict=True):
        info = {"total_token_usage": {"input_tokens": total[0], "output_tokens": total[1]},
                "last_token_usage": {"input_tokens": given, "output_tokens": answered}}  # fmt: skip
        rows.append(line("event_msg", at, {"type": "token_count", "info": info}))
    return rows


def clock(hour: int, second: float) -> str:
    return f"2026-07-20T{hour}:00:{second:06.3f}Z"


ORIGINAL: Final = [meta(PARENT, clock(10, 0)), *turns(FIRST, [clock(10, 5), clock(10, 50)])]


def fork(
    name: str, of: str, hour: int, copied: list[Turn], own: list[Turn], **at: str
) -> list[Row]:
    """Return a fork, which copies turns at once and with times of its own."""
    times = [clock(hour, 0.05)] * len(copied)
    return [
        meta(name, clock(hour, 0), **(at or {"forked": of})),
        *turns(copied, times),
        *turns(own, [clock(hour, 30 + second) for second in range(len(own))], copied),
    ]


def found(*files: list[Row]) -> list[tuple[str, int, int]]:
    return sorted(
        (call["session_id"], call["usage"]["prompt_tokens"], call["usage"]["completion_tokens"])
        for call in read(*files)
    )


def calls(session: str, told: list[Turn]) -> list[tuple[str, int, int]]:
    return [(session, *turn) for turn in told]


def test_forks_of_forks_count_each_call_once_in_its_own_session() -> None:
    child = fork(CHILD, PARENT, 12, FIRST, [(40_000, 300)])
    grandchild = fork(GRANDCHILD, CHILD, 14, [*FIRST, (40_000, 300)], [(50_000, 200)])
    wanted = [*calls(PARENT, FIRST), (CHILD, 40_000, 300), (GRANDCHILD, 50_000, 200)]
    for order in permutations([ORIGINAL, child, grandchild]):
        assert found(*order) == sorted(wanted)
        assert found(*order, ORIGINAL[:-1], grandchild) == sorted(wanted)
    # Without the session in between, or without the first.
    assert len(found(ORIGINAL, grandchild)) == 4
    assert len(found(grandchild, child)) == 4


def test_whichever_files_of_a_chain_of_forks_are_missing_each_call_counts_once() -> None:
    """The last file repeats all calls before its own, so its copies stand for what is missing."""
    own: list[list[Turn]] = [FIRST, [(40_000, 300)], [(50_000, 200)], [(60_000, 100)]]
    names = (PARENT, CHILD, GRANDCHILD, SIBLING)
    copied = [sum(own[:number], []) for number in range(4)]
    chain = [ORIGINAL] + [
        fork(names[number], names[number - 1], 10 + 2 * number, copied[number], own[number])
        for number in range(1, 4)
    ]
    for count in range(4):
        for kept in combinations(chain[:3], count):
            for order in ([*kept, chain[3]], [chain[3], *kept]):
                counts = sorted(call[1:] for call in found(*order))
                assert counts == sorted(sum(own, []))


def test_a_sub_agent_may_name_its_parent_beside_its_source() -> None:
    """https://github.com/chattymin/PokeTokenBar/issues/128"""
    spawned = fork(CHILD, PARENT, 12, FIRST, [(40_000, 300)])
    spawned[0]["payload"]["parent_thread_id"] = spawned[0]["payload"].pop("forked_from_id")
    wanted = sorted([*calls(PARENT, FIRST), (CHILD, 40_000, 300)])
    assert found(ORIGINAL, spawned) == found(spawned, ORIGINAL) == wanted


@each_case("hour", [10, 12])
def test_a_sub_agent_that_repeats_its_parent_counts_its_own_calls(hour: int) -> None:
    """Some repeat the parent's times, others write times of their own."""
    spawned = fork(CHILD, PARENT, 12, FIRST, [(40_000, 300)], spawned=PARENT)
    if hour == 10:
        spawned[1:4] = ORIGINAL[1:4]
    wanted = sorted([*calls(PARENT, FIRST), (CHILD, 40_000, 300)])
    assert found(ORIGINAL, spawned) == found(spawned, ORIGINAL) == wanted


def test_forks_and_sub_agents_that_are_alike_are_two() -> None:
    # They begin with nothing of the parent, and one of them is as large as the parent's first.
    agents = [
        fork(name, PARENT, hour, [], [FIRST[0], (200, 10)], spawned=PARENT)
        for name, hour in ((CHILD, 11), (SIBLING, 12), (GRANDCHILD, 12))
    ]
    for files in ([ORIGINAL, *agents], [*agents, ORIGINAL]):
        assert len(found(*files)) == 8
    assert len(found(*agents)) == 6
    # Two forks that go on alike are two.
    forks = [fork(name, PARENT, 12, FIRST, [(40_000, 300)]) for name in (CHILD, SIBLING)]
    assert len(found(ORIGINAL, *forks)) == len(found(*forks)) == 4
    # Sessions in one file are read as files are.
    child = fork(CHILD, PARENT, 12, FIRST, [(40_000, 300)])
    repeated = [child[0], ORIGINAL[0], *child[1:]]  # forks may copy what names the parent
    assert found([*ORIGINAL, *repeated]) == found([*repeated, *ORIGINAL]) == found(ORIGINAL, child)
