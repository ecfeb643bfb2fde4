"""Call files: merged calls are each there once, in files of a day or a month."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Any

import polars as pl
import pytest

import detectors
from detectors.report.account import call_files, merge_files, read_calls, write_calls
from detectors.report.account.call_files import CallFile, find_repeated
from tests.cases import each_case

NEVER = date(2000, 1, 1)
NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
CALL: dict[str, Any] = {
    "ts": NOON.isoformat(),
    "provider": "openai",
    "model": "gpt-4o",
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "request_id": "r1",
}


def frame(*calls: dict[str, Any], import_id: str = "a") -> pl.DataFrame:
    own = detectors.read([CALL | call for call in calls]).frame
    return own.with_columns(pl.lit(import_id).alias("import_id"))


def at(**later: float) -> dict[str, str]:
    return {"ts": (NOON + timedelta(**later)).isoformat()}


def merge(*frames: pl.DataFrame, **options: Any) -> list[CallFile]:
    return list(merge_files(frames, **({"months_before": NEVER} | options)))


@pytest.fixture
def without_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_files, "SPARSE_CALLS", 0)


def rows(files: Sequence[CallFile]) -> int:
    return sum(file.frame.height for file in files)


@pytest.mark.usefixtures("without_sharing")
def test_each_day_is_a_file_of_its_own_in_order_of_time() -> None:
    files = merge(frame(at(hours=13), at(hours=1), at(days=3)), frame(at(hours=-12), import_id="b"))
    days = [(file.first_day, file.last_day, file.imports) for file in files]
    assert days == [
        (date(2026, 10, 5), date(2026, 10, 5), ["a", "b"]),
        (date(2026, 10, 6), date(2026, 10, 6), ["a"]),
        (date(2026, 10, 8), date(2026, 10, 8), ["a"]),
    ]
    assert all(file.frame["ts"].is_sorted() for file in files)


@pytest.mark.usefixtures("without_sharing")
def test_months_that_are_over_long_enough_are_a_file_each() -> None:
    log = frame(*(at(days=days, hours=hours) for days in range(-70, 10) for hours in (0, 3)))
    files = merge(log, months_before=date(2026, 10, 2))
    spans = [(file.first_day, file.last_day) for file in files]
    assert spans[:4] == [
        (date(2026, 7, 27), date(2026, 7, 31)),
        (date(2026, 8, 1), date(2026, 8, 31)),
        (date(2026, 9, 1), date(2026, 9, 30)),
        (date(2026, 10, 1), date(2026, 10, 1)),
    ]
    assert all(first == last for first, last in spans[3:])
    assert rows(files) == 160


def test_sparse_days_of_one_month_share_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today has its own, and so has a day with many calls."""
    monkeypatch.setattr(call_files, "SPARSE_CALLS", 4)
    many = [at(days=6, hours=hours) for hours in range(5)]
    log = frame(*(at(days=days) for days in (-5, -4, 0, 1, 2, 3, 4, 8, 9, 10, 11)), *many)
    files = merge(log, today=date(2026, 10, 15))
    assert [(file.first_day.day, file.last_day.day, file.frame.height) for file in files] == [
        (30, 30, 1),
        (1, 7, 4),
        (8, 9, 2),
        (11, 11, 5),
        (13, 14, 2),
        (15, 15, 1),
        (16, 16, 1),
    ]


def test_one_batch_of_5000_days_is_as_many_files_as_months() -> None:
    first = datetime(2026, 12, 1, tzinfo=UTC)
    days = [{"ts": (first + timedelta(days=days)).isoformat()} for days in range(5_000)]
    files = merge(frame(*days), today=date(2026, 11, 28))
    assert len(files) == 165  # 5,000 before days shared files
    assert rows(files) == 5_000


@each_case(
    ("other", "is_repeated"),
    [
        ({}, True),
        ({"tag": "named"}, True),
        ({"request_id": "r2"}, False),
        ({"request_id": ""}, False),
        (at(microseconds=1), False),
        ({"request_id": "chatcmpl-9aQ"} | at(seconds=59), True),
        ({"request_id": "chatcmpl-9aQ"} | at(seconds=61), False),
    ],
)
def test_calls_that_merging_would_drop_are_found_in_other_files(
    other: dict[str, Any], is_repeated: bool
) -> None:
    file, without = BytesIO(), BytesIO()
    write_calls(frame({}, {"request_id": "chatcmpl-9aQ"}, at(hours=1)), file)
    write_calls(frame({"request_id": "r3"}), without)
    file.seek(0)
    without.seek(0)
    new = [frame({"request_id": "r9"}, {"request_id": "r9"}), frame(other, import_id="b")]
    assert find_repeated(new, [without, file]) == [False, is_repeated]


def test_calls_of_several_imports_count_once_without_other_files() -> None:
    assert find_repeated([frame({"request_id": ""})], [BytesIO(b"no Parquet")]) == []
    # A call that several imports brought counts once.
    files = merge(frame({}, at(hours=1)), frame({}, import_id="b"), frame({}, import_id="c"))
    assert [(file.frame.height, file.duplicates) for file in files] == [(2, 2)]


def test_deleted_days_of_an_import_are_excluded() -> None:
    """The same days of other imports stay, and so do other days of the import."""
    own = frame(at(hours=1), at(days=3), at(days=4), at(days=5))
    other = frame(at(days=3, hours=1), import_id="b")
    days = [NOON.date() + timedelta(days=day) for day in range(6)]
    deleted = [("a", days[3], days[4]), ("a", days[3], days[3]), ("c", days[0], days[5])]
    [file] = merge(own, other, deleted=deleted)
    assert (file.first_day, file.last_day, file.imports) == (days[0], days[5], ["a", "b"])
    assert file.frame["ts"].dt.date().to_list() == [days[0], days[3], days[5]]
    assert merge(own, deleted=[("a", days[0], date.max)]) == []


def test_calls_without_a_request_id_count_as_they_came() -> None:
    unnamed = frame({"request_id": ""}, {"request_id": ""})
    assert [(file.frame.height, file.duplicates) for file in merge(unnamed, unnamed)] == [(4, 0)]


@each_case(
    "other",
    [
        {"request_id": "r2"},
        {"provider": "azure"},
        {"model": "gpt-4.1"},
        {"prompt_tokens": 101},
        {"completion_tokens": 11},
        {"cached_tokens": 1},
        {"cache_write_tokens": 1},
        at(microseconds=1),
    ],
)
def test_calls_that_differ_count_each(other: dict[str, Any]) -> None:
    (file,) = merge(frame({}), frame(other, import_id="b"))
    assert (file.frame.height, file.duplicates) == (2, 0)


RESPONSE = {"request_id": "chatcmpl-9aQ"}


@each_case(
    "other",
    [
        at(microseconds=1),
        at(seconds=59),
        {"cached_tokens": 1},
        {"cache_write_tokens": 1},
        {"provider": "azure"},  # a gateway's own provider, or its own name of the model
        {"model": "gpt-4.1"},
    ],
)
def test_a_response_that_two_ways_have_brought_counts_once(other: dict[str, Any]) -> None:
    for request_id in ("chatcmpl-9aQ", "resp_9aQ", "msg_9aQ"):
        named = {"request_id": request_id}
        (file,) = merge(frame(named), frame(named | other, import_id="b"))
        assert (file.frame.height, file.duplicates) == (1, 1)


UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@each_case(
    ("provider", "request_id", "calls"),
    [
        ("aws", UUID, 1),
        ("bedrock", UUID, 1),
        ("cohere", UUID, 1),
        ("openai", UUID, 2),
        ("google", "mAUjaYqJM5-sjMcP3Z2V4Aw", 1),
        ("openai", "mAUjaYqJM5-sjMcP3Z2V4Aw", 2),
        ("google", "nightly-report", 2),
        ("mistral", "cmpl-1", 1),
        ("mistral", UUID.replace("-", ""), 1),
    ],
)
def test_an_id_without_a_beginning_is_known_by_its_provider(
    provider: str, request_id: str, calls: int
) -> None:
    named = {"provider": provider, "request_id": request_id}
    (file,) = merge(frame(named), frame(named | at(seconds=1), import_id="b"))
    assert file.frame.height == calls


MORE: dict[str, Any] = {"completion_tokens": 11}


def test_a_response_id_is_of_one_call_nearby() -> None:
    (file,) = merge(frame(RESPONSE), frame(RESPONSE | at(minutes=2), import_id="b"))
    assert (file.frame.height, file.duplicates) == (2, 0)
    (file,) = merge(
        frame(*(RESPONSE | MORE | at(minutes=each) for each in (0, 2, 4))),
        frame(RESPONSE, import_id="b"),
    )
    assert (file.frame.height, file.duplicates) == (4, 0)
    # A response id on different calls of one import is none.
    (file,) = merge(
        frame(RESPONSE, RESPONSE | MORE | at(seconds=1)), frame(RESPONSE, import_id="b")
    )
    assert (file.frame.height, file.duplicates) == (2, 1)


@each_case("tag", ["", "search"])
def test_such_calls_stay_apart_whatever_is_merged_later(tag: str) -> None:
    """Also where the copy of another import is the one that stays."""
    own = frame(RESPONSE, RESPONSE | MORE | at(seconds=1))
    (file,) = merge(own, frame(RESPONSE | {"tag": tag}, import_id="b"))
    for other in (frame({"request_id": "other"}, import_id="c"), frame(RESPONSE, import_id="c")):
        (later,) = merge(file.frame, other)
        assert later.frame["request_id"].to_list().count("chatcmpl-9aQ") == 2


def test_an_answer_is_near_its_request_however_long_it_took() -> None:
    """A gateway has the time of the request, an agent that of its first line."""
    asked = frame(RESPONSE | {"latency_ms": 95_000.0})
    for seconds, calls in ((95, 1), (155, 1), (156, 2)):
        (file,) = merge(asked, frame(RESPONSE | at(seconds=seconds), import_id="b"))
        assert file.frame.height == calls


@each_case("midnight", [False, True])
def test_of_the_same_response_the_larger_counts_stay_at_the_earlier_time(*, midnight: bool) -> None:
    """Also where one way has brought it before midnight, and the other after it."""
    begin = NOON + timedelta(hours=11, minutes=59, seconds=58) if midnight else NOON
    own, later = ({"ts": (begin + timedelta(seconds=each)).isoformat()} for each in (0, 4))
    early = frame(RESPONSE | own | {"tag": "search", "provider": "azure"}, import_id="a")
    late = frame(RESPONSE | MORE | later, import_id="b")
    for order in ((early, late), (late, early)):
        (file,) = merge(*order)
        assert file.frame.select("ts", "completion_tokens").rows() == [(begin, 11)]
        assert (file.first_day, file.duplicates) == (begin.date(), 1)
    written = BytesIO()
    write_calls(early, written)
    written.seek(0)
    assert find_repeated([late], [written]) == [True]


def test_of_the_same_call_that_with_the_most_labels_is_kept() -> None:
    bare = frame({}, import_id="a")
    tagged = frame({"tag": "search", "environment": "production"}, import_id="b")
    for order in ((bare, tagged), (tagged, bare)):
        (file,) = merge(*order)
        assert file.frame.select("tag", "environment", "import_id").rows() == [
            ("search", "production", "b")
        ]


def test_of_the_same_response_that_with_cached_tokens_is_kept() -> None:
    without = frame(RESPONSE | {"tag": "search"}, import_id="a")
    cached = frame(RESPONSE | {"cached_tokens": 40}, import_id="b")
    for order in ((without, cached), (cached, without)):
        (file,) = merge(*order)
        assert file.frame["cached_tokens"].to_list() == [40]


def stored(calls: pl.DataFrame) -> BytesIO:
    file = BytesIO()
    write_calls(calls, file)
    file.seek(0)
    return file


SESSION: dict[str, Any] = {"session_id": "s1", "provider": "codex"}


@each_case(
    ("event", "kept"),
    [
        ({}, 1),
        (at(seconds=50), 1),
        (at(minutes=-4) | {"latency_ms": 240_000}, 1),  # its answer ended at noon
        (at(seconds=70), 2),
        ({"session_id": "s2"}, 2),
        ({"completion_tokens": 11}, 2),
        ({"session_id": None}, 2),
    ],
)
def test_an_event_of_a_call_in_a_session_is_dropped(event: dict[str, Any], kept: int) -> None:
    logged = frame(SESSION | {"request_id": "agent-event-1"} | event, import_id="b")
    session = frame(SESSION | {"request_id": "s1:100", "tag": "boats"})
    for frames in ((logged, session), (session, logged)):
        [file] = merge(*frames)
        assert file.frame.height == kept
        assert file.duplicates == 2 - kept
        assert "boats" in file.frame["tag"].to_list()
    assert find_repeated([session], [stored(logged)]) == [kept == 1]
    assert find_repeated([logged], [stored(session)]) == [kept == 1]


def test_each_call_of_a_session_takes_one_event() -> None:
    events = [SESSION | {"request_id": f"agent-event-{n}"} | at(seconds=n) for n in range(3)]
    calls = [SESSION | {"request_id": f"s1:{n}"} | at(seconds=n) for n in range(2)]
    [file] = merge(frame(*events), frame(*calls, import_id="b"))
    assert sorted(file.frame["request_id"].to_list()) == ["agent-event-2", "s1:0", "s1:1"]


def test_events_and_calls_are_paired_in_order_of_time() -> None:
    events = [SESSION | {"request_id": f"agent-event-{n}"} | at(seconds=n) for n in range(2)]
    calls = [SESSION | {"request_id": f"s1:{n}"} | at(seconds=n + 1.5) for n in range(2)]
    [file] = merge(frame(*events), frame(*calls, import_id="b"))
    assert sorted(file.frame["request_id"].to_list()) == ["s1:0", "s1:1"]


def test_as_many_equal_events_and_calls_as_a_batch_has_are_paired_one_by_one() -> None:
    """All pairs of them would be 25,000,000."""
    events = [SESSION | {"request_id": f"agent-event-{n}"} for n in range(5_000)]
    calls = [SESSION | {"request_id": f"s1:{n}"} for n in range(5_000)]
    [file] = merge(frame(*events), frame(*calls, import_id="b"))
    assert file.frame["request_id"].str.starts_with("s1:").all()
    assert (file.frame.height, file.duplicates) == (5_000, 5_000)


@each_case(("own", "kept"), [("", "metered"), ("included", "included")])
def test_a_call_takes_from_its_event_who_pays(own: str, kept: str) -> None:
    event = frame(SESSION | {"request_id": "agent-event-1", "billing": "metered"}, import_id="b")
    call = frame(SESSION | {"request_id": "s1:1"} | ({"billing": own} if own else {}))
    for frames in ((event, call), (call, event)):
        [file] = merge(*frames)
        assert file.frame.select("request_id", "billing").rows() == [("s1:1", kept)]


def test_an_import_can_be_excluded() -> None:
    files = merge(frame({}, at(days=1)), frame(at(hours=1), import_id="b"), without={"a"})
    assert [file.imports for file in files] == [["b"]]
    assert merge(frame({}), without={"a"}) == []


def test_merging_in_steps_gives_the_same_files_as_merging_at_once() -> None:
    parts = [
        frame(
            *(at(minutes=7 * step + part, seconds=part % 3) for step in range(40)), import_id=name
        )
        for part, name in enumerate("abcdef")
    ]
    at_once = merge(*parts, parts[2].with_columns(pl.lit("g").alias("import_id")))
    first = [file.frame for file in merge(*parts[:3])]
    second = [file.frame for file in merge(*parts[3:], parts[2])]
    in_steps = merge(*first, *second)
    columns = [name for name in at_once[0].frame.columns if name != "import_id"]
    assert [file.frame.select(columns).sort(columns).rows() for file in in_steps] == [
        file.frame.select(columns).sort(columns).rows() for file in at_once
    ]


def test_a_file_is_read_as_it_was_written() -> None:
    (file,) = merge(frame({"environment": "staging"}, at(minutes=1)))
    stored = BytesIO()
    write_calls(file.frame, stored)
    stored.seek(0)
    assert read_calls(stored).equals(file.frame)


def test_the_frame_of_one_import_gets_its_name() -> None:
    own, stored = detectors.read([CALL]).frame, BytesIO()
    own.write_parquet(stored)
    stored.seek(0)
    assert read_calls(stored, "a").equals(frame({}))
