"""The fast way and the slow one: whatever the first takes, the second reads the same."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import RECORD_FIELDS
from detectors.errors import ContractError
from detectors.formats import decode_batch, encode_records
from detectors.formats.checks import find_unclean_rows
from detectors.formats.columns import Columns
from detectors.formats.json_logs import lines
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.dialect import Dialect, Layout, to_microseconds
from detectors.formats.json_logs.lines import Rows, can_hold_control_characters, parse_objects
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.json_logs.shapes import Shape
from detectors.formats.moments import EPOCH, MICROSECOND
from tests.cases import each_case
from tests.exploration import explored
from tests.worker.support.promises import at_both_scales, scaled

VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, 0, 1, 7, -1, 10**12, 10**12 + 1, 2**70, 1.0, 1.5, "", "a", "5", "a" * 201,
        "a\n", "\u0085", "ab" * 32, "zz" * 32, "2026-01-01T00:00:00Z", "2026-01-01", 1_767_225_600,
        1_767_225_600.5, "list", [], {}, [{}], {"a": 1}, ["a"],
    ]
)  # fmt: skip


def documents(shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of the shape's keys, now and then another, holding this and that."""
    members: dict[str, st.SearchStrategy[Any]] = {"content": VALUES}
    for name, member in shape.members.items():
        if isinstance(member, Shape):
            members[name] = documents(member) | VALUES
        else:
            members[name] = VALUES
    required = {name: members.pop(name) for name in shape.required}
    return st.fixed_dictionaries(required, optional=members)


def nearly(shape: Shape, right: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A right object with a member or two changed, at any depth."""
    inner = {
        name: nearly(member, right.get(name, {})) if isinstance(member, Shape) else VALUES
        for name, member in shape.members.items()
    }
    changes = st.lists(st.sampled_from(sorted(inner)), max_size=2, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: inner[name] for name in names})
    )
    return changes.map(lambda changed: right | changed)


OPENAI_USAGE = {"prompt_tokens": 10, "completion_tokens": 2}
ANTHROPIC_USAGE = {"input_tokens": 10, "output_tokens": 2}
WRAPPED_CHAT = {
    "ts": "2026-01-01T00:00:00Z",
    "request": {"model": "m"},
    "response": {"usage": OPENAI_USAGE},
}
WRAPPED_MESSAGE = {
    "created": 1_767_225_600.5,
    "request": {"model": "m"},
    "response": {"usage": ANTHROPIC_USAGE},
}
CASES: list[tuple[Dialect, Layout, dict[str, Any]]] = [
    (OPENAI, OPENAI.flat, {"created": 1_767_225_600, "model": "m", "usage": OPENAI_USAGE}),
    (OPENAI, OPENAI.wrapped, WRAPPED_CHAT),
    (ANTHROPIC, ANTHROPIC.flat, {"ts": 1_767_225_600, "model": "m", "usage": ANTHROPIC_USAGE}),
    (ANTHROPIC, ANTHROPIC.wrapped, WRAPPED_MESSAGE),
]


def take_quickly(layout: Layout, text: bytes) -> Columns | None:
    if can_hold_control_characters(text):
        return None
    try:
        columns = layout.to_columns([layout.decoder.decode(text)])
    except msgspec.ValidationError:
        return None
    unclean = find_unclean_rows(columns, may_hold_control_characters=False)
    return None if unclean else columns


@at_both_scales
@pytest.mark.parametrize(("dialect", "layout", "members"), CASES)
def test_the_fast_and_the_slow_reader_give_the_same_result(
    dialect: Dialect,
    layout: Layout,
    members: dict[str, Any],
    share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[Any] = []

    @settings(deadline=None, max_examples=scaled(1_000, share))
    @given(documents(layout.shape) | nearly(layout.shape, members))
    def check(document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        quick = take_quickly(layout, text)
        with monkeypatch.context() as patch:
            patch.setattr(
                lines, "_decode_each", lambda lines, layout: (Rows(layout, [], []), lines)
            )
            patch.setattr(lines, "_decode_together", lambda *_: None)
            slow = parse_objects([text], 1, dialect)
        whole = parse_objects([text], 1, dialect)
        assert (whole.columns, whole.invalid, whole.unknown_fields) == (
            slow.columns, slow.invalid, slow.unknown_fields
        ) or (quick is None and whole.invalid and slow.invalid)  # fmt: skip
        if quick is not None:
            assert slow.columns == quick
            taken.append(document)

    check()
    assert len(taken) > 10 * share


RECORD = {
    "ts": "2026-01-01T00:00:00Z",
    "provider": "openai",
    "model": "m",
    "prompt_tokens": 1,
    "completion_tokens": 2,
}


@each_case("text", ["a\n", "a\u0085", "a\x7f", "a\u0000"])
@each_case("is_ascii", [True, False])
def test_a_control_character_makes_a_row_invalid_also_in_a_text_that_is_dropped(
    text: str, is_ascii: bool
) -> None:
    flat = CASES[0][2]
    lines = [json.dumps(flat | {"object": one}, ensure_ascii=is_ascii) for one in ("é", text)]
    parsed = parse_objects([line.encode() for line in lines], 1, OPENAI)
    assert len(parsed.columns["ts"]) == 1
    assert [row.line for row in parsed.invalid] == [2]
    assert parsed.invalid[0].reason.startswith("object")


@explored(500, st.dictionaries(st.sampled_from([*RECORD_FIELDS, "content"]), VALUES, max_size=2))
def test_both_decoders_accept_the_same_batches(changes: dict[str, Any]) -> None:
    body = json.dumps({"records": [RECORD | changes]}).encode()
    wide = json.dumps({"records": [RECORD | changes, RECORD | {"ts": "20260101"}]}).encode()

    def outcome(text: bytes) -> bytes | str:
        try:
            return encode_records(decode_batch(text)[:1])
        except ContractError as error:
            return str(error)

    assert outcome(body) == outcome(wide)


ZONES = (None, UTC, timezone(timedelta(hours=-7)), timezone(timedelta(seconds=90)))
TIMES = st.builds(
    lambda seconds, microseconds, zone: (
        (EPOCH + timedelta(0, seconds, microseconds)).astimezone(zone or UTC).replace(tzinfo=zone)
    ),
    st.integers(-(10**9), 5 * 10**9),
    st.sampled_from([0, 0, 0, 1_000, 999_999]),
    st.sampled_from(ZONES),
)


@explored(300, st.lists(TIMES, max_size=20))
def test_times_are_converted_together_as_one_by_one(times: list[datetime]) -> None:
    aware = [time if time.tzinfo else time.replace(tzinfo=UTC) for time in times]
    whole = [time for time in times if time.tzinfo and not time.microsecond]
    assert to_microseconds(times) == [(time - EPOCH) // MICROSECOND for time in aware]
    assert to_microseconds(whole) == [(time - EPOCH) // MICROSECOND for time in whole]
