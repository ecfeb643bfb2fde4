"""Generic CSV: headers, cells, and text that only pretends to be a table."""

from io import BytesIO

import pytest
from hypothesis import strategies as st

from detectors.contract import InvalidRow, UsageRecord
from detectors.errors import ContractError, DetectorError, UnreadableLogError
from detectors.formats import encode_records, read_chunks, records_of
from detectors.formats.chunks import join_chunks
from tests.cases import data_of, each_case
from tests.exploration import explored

HEADER = "ts,provider,model,prompt_tokens,completion_tokens"
ROW = "2026-01-01T00:00:00Z,openai,gpt-5.4,10,2"
COUNT = "an integer from 0 to 1,000,000,000,000"


def read_csv(text: str | bytes) -> tuple[list[UsageRecord], list[InvalidRow]]:
    raw = text.encode() if isinstance(text, str) else text
    chunks = list(read_chunks(BytesIO(raw)))
    return (
        [record for chunk in chunks for record in records_of(chunk.columns)],
        [row for chunk in chunks for row in chunk.invalid],
    )


def with_tag(cell: str) -> str:
    return f"{HEADER},tag\n{ROW},{cell}\n"


def read_later(row: bytes) -> list[InvalidRow]:
    """Return the invalid rows of a log whose last row is in a later piece.

    Such a piece is read as a whole first.
    """
    text = with_tag("x") + f"{ROW},x\n" * 60
    chunks = list(read_chunks(BytesIO(text.encode() + row), chunk_bytes=8))
    assert sum(chunk.rows for chunk in chunks) == 62
    return [each for chunk in chunks for each in chunk.invalid]


@each_case("text", data_of(__file__)["notations"])
def test_the_same_table_in_another_notation_gives_the_same_result(text: str) -> None:
    assert read_csv(text) == read_csv(f"{HEADER}\n{ROW}\n")


@each_case(
    ("row", "reason"),
    [
        (",openai,gpt-5.4,10,2", "missing field ts"),
        ("CANARY,openai,gpt-5.4,10,2", "ts must be"),
        ("1999-12-31,openai,gpt-5.4,10,2", "ts must be"),
        ("5,openai,gpt-5.4,10,2", "ts must be"),
        ("2026-01-01,Open AI,gpt-5.4,10,2", "provider must be"),
        ("2026-01-01,openai,,10,2", "missing field model"),
        ("2026-01-01,openai,gpt-5.4,1.5,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,-1,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,true,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,٣,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,1_0,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,nan,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,inf,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,1e400,2", f"prompt_tokens must be {COUNT}"),
        (f"2026-01-01,openai,gpt-5.4,{'9' * 5000},2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,1000000000001,2", f"prompt_tokens must be {COUNT}"),
        ("2026-01-01,openai,gpt-5.4,,2", "missing field prompt_tokens"),
        ("2026-01-01,openai,gpt-5.4,null,2", "prompt_tokens must be"),
        ("2026-01-01,openai,gpt-5.4", "expected 5 cells"),
        ("CANARY", "expected 5 cells"),
        ("2026-01-01,openai,gpt-5.4,10,2,CANARY the customer said", "expected 5 cells"),
        ('"2026-01-01,openai,gpt-5.4,10,2', "expected 5 cells"),
    ],
)
def test_a_bad_row_is_invalid_with_its_reason(row: str, reason: str) -> None:
    records, (invalid,) = read_csv(f"{HEADER}\n{ROW}\n{row}\n")
    assert len(records) == 1
    assert invalid.line == 3
    assert invalid.reason.startswith(reason)
    assert "CANARY" not in invalid.reason


@each_case("cell", ["a" * 201, "a\x00b", "a\x7fb", "a\x85b", '"a\nb"', '"a\rb"'])
def test_a_label_of_control_characters_is_invalid(cell: str) -> None:
    records, invalid = read_csv(with_tag(cell))
    assert not records
    assert [row.line for row in invalid] == [2]
    assert [row.line for row in read_later(f"{ROW},{cell}".encode())] == [63]


def test_a_cell_that_is_not_utf_8_is_invalid() -> None:
    text = with_tag("x").encode().replace(b",x", b",\xff")
    records, (invalid,) = read_csv(text)
    assert not records
    assert invalid.reason.startswith("tag must be")
    in_pieces = list(read_chunks(BytesIO(text), chunk_bytes=8))
    assert [row for chunk in in_pieces for row in chunk.invalid] == [invalid]
    (later,) = read_later(ROW.encode() + b",\xff")
    assert (later.line, later.reason) == (63, invalid.reason)


def test_a_cell_longer_than_any_value_is_invalid() -> None:
    row = f"{ROW},x".replace("Z", f".{'0' * 140_000}Z")
    _, invalid = read_csv(f"{HEADER},tag\n{row}\n{ROW},x\n")
    assert [each.line for each in invalid] == [2]
    assert [each.line for each in read_later(row.encode())] == [63]


@each_case("cell", ["=1+1", "'; DROP", "<b>", '"a,b"', '"a""b"', "null", "é" * 200, "x y"])
def test_any_other_label_is_kept_as_it_is(cell: str) -> None:
    ((record,), _) = read_csv(with_tag(cell))
    assert record.tag == cell.strip('"').replace('""', '"')


def test_a_quote_that_never_closes_is_one_invalid_row() -> None:
    records, invalid = read_csv(f'{HEADER}\n{ROW}\n"{ROW}\n' + f"{ROW}\n" * 2_000)
    assert len(records) == 1
    assert [row.line for row in invalid] == [3]
    # A cell that is too long is not csv and reading continues.
    huge = "x" * 200_000
    records, invalid = read_csv(f"{HEADER},tag\n{ROW},{huge}\n{ROW},a\n")
    assert [record.tag for record in records] == ["a"]
    assert invalid == [InvalidRow(2, "not CSV")]


@each_case("end", ["\n", "\r\n"])
def test_a_quote_that_never_closes_in_a_long_log_is_rejected(end: str) -> None:
    text = end.join([HEADER, *[ROW] * 700, f'"{ROW}', *[ROW] * 200_000])
    with pytest.raises(UnreadableLogError, match="no closing quote"):
        read_csv(text)


def test_rows_keep_their_line_numbers_and_none_is_longer_than_valid() -> None:
    for row in ("ab," * 400_000, '"\n",' * 1_500_000):
        with pytest.raises(UnreadableLogError, match="longer than 1,048,576 bytes"):
            read_csv(f"{HEADER}\n{ROW}\n{row}\n{ROW}\n" + f"{ROW}\n" * 60_000)
    # Rows keep their line numbers.
    times = ["2026-01-01T00:00:00Z", "2026-01-01 00:00", "CANARY"]
    rows = [f"{times[n % 3]},openai,m,{n},2" for n in range(12_000)]
    records, invalid = read_csv("\n".join([HEADER, *rows]))
    assert [record.prompt_tokens for record in records] == [n for n in range(12_000) if n % 3 < 2]
    assert [row.line for row in invalid] == [n + 2 for n in range(12_000) if n % 3 == 2]


@each_case(
    ("extra", "named"),
    [
        ("content", "content"),
        ("messages,TEAM", "messages, team"),
        ("created", "created"),
        ("CANARY the customer said", "column 6"),
        (",", "column 6, column 7"),
        ("tag,ключ", "column 7"),
    ],
)
def test_an_unknown_column_breaks_the_contract(extra: str, named: str) -> None:
    with pytest.raises(ContractError) as caught:
        read_csv(f"{HEADER},{extra}\n{ROW},CANARY\n")
    assert str(caught.value) == (
        f"Contains fields we never accept ({named}) in the header: content is never accepted. "
        "Remove them."
    )


def test_the_contract_comes_before_missing_columns() -> None:
    with pytest.raises(ContractError, match=r"never accept \(prompt\)"):
        read_csv("ts,model,prompt\n1,2,3\n")


@each_case(
    ("text", "expected"),
    [
        ("ts,provider,model\n1,2,3", "add or map: prompt_tokens, completion_tokens"),
        (f"{HEADER},Model\n{ROW},x", "needs a different name"),
        (HEADER, "has no rows"),
        (f"{HEADER}\n\n\n", "has no rows"),
    ],
)
def test_an_incomplete_table_is_unreadable(text: str, expected: str) -> None:
    with pytest.raises(UnreadableLogError, match=expected):
        read_csv(text)


@each_case(
    "text",
    [
        ROW,
        f"{ROW}\n{ROW}",
        "CANARY,the customer said,no",
        "question,answer\nCANARY,CANARY",
        f"{ROW},CANARY\n{HEADER}\n{ROW}",
        f"model\n{ROW}",
        HEADER.replace(",", "|") + "\n" + ROW.replace(",", "|"),
    ],
)
def test_text_without_a_header_is_rejected_and_not_repeated(text: str) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        read_csv(text)
    assert "CANARY" not in str(caught.value)


def test_nothing_of_a_refused_cell_is_kept() -> None:
    text = f"{HEADER},tag\n{ROW},ok\n{ROW},CANARY,CANARY\nCANARY\n{ROW}\n"
    records, _ = read_csv(text)
    assert b"CANARY" not in encode_records(records)


def test_a_table_cut_off_anywhere_never_raises_anything_else() -> None:
    text = with_tag('"a, ""b"""')
    for end in range(len(text)):
        try:
            read_csv(text[:end])
        except DetectorError:
            continue


def test_rows_keep_their_lines_however_many_come_at_once() -> None:
    """Blank ones, bad ones, ones over several lines and ones that are no CSV at all between."""
    lines, bad, valid = [f"{HEADER},tag"], [], 0
    for number in range(3_000):
        if number % 11 == 3:
            lines.append("")
        if number % 7 == 5:
            lines += [f'{ROW},"over', "", 'several lines"']
            bad.append((len(lines) - 2, "tag must be"))
        elif number % 13 == 8:
            lines.append("x,y")
            bad.append((len(lines), "expected 6 cells"))
        elif number % 997 == 996:
            lines.append(f'{ROW},"{"x" * 140_000}"')
            bad.append((len(lines), "not CSV"))
        else:
            lines.append(f"{ROW},a")
            valid += 1
    records, invalid = read_csv("\n".join(lines))
    assert len(records) == valid
    assert [row.line for row in invalid] == [line for line, _ in bad]
    for row, (_, reason) in zip(invalid, bad, strict=True):
        assert row.reason.startswith(reason)


CELLS = st.sampled_from(
    ["", "1", "0", "007", "+1", "-1", " 1", "1_0", "1.0", "1e2", "1e400", "٣", "2026-01-01 00:00",
     "2026-01-01T00:00:00Z", "2026-01-01T01:00:00.000001+01:00", "1767225600", "1767225600.25",
     "openai", "OpenAI", "a" * 201, "a" * 1_001, "ab" * 32, "zz" * 32, "é", "\x00", "\x85", "a,b",
     '"a"', '""', '"', '"1"', '"a,b"', '"a""b"', '"a\nb"', 'a"b', '"a"b',
     "\r", "\r\n", "\n", "nan", "0" * 140_000 + "1"]
)  # fmt: skip
COLUMNS = [*HEADER.split(","), "latency_ms", "cached_tokens", "prefix_hash", "tag"]
GOOD = [*ROW.split(","), "1.5", "3", "ab" * 32, "x"]


@explored(
    400,
    changes=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 8), CELLS), max_size=3),
    end=st.sampled_from(["", "\n", "\r\n", "\n\n"]),
    chunk_bytes=st.sampled_from([1, 700, 1 << 20]),
    quoted=st.sets(st.integers(0, 8)),
)
def test_whole_pieces_and_rows_give_the_same_result(
    changes: list[tuple[int, int, str]], end: str, chunk_bytes: int, quoted: set[int]
) -> None:
    good = [f'"{cell}"' if column in quoted else cell for column, cell in enumerate(GOOD)]
    rows = [list(good) for _ in range(40)]
    for row, column, cell in changes:
        rows[row][column] = cell
    text = "\n".join(",".join(row) for row in [COLUMNS, *rows]) + end
    quick = list(read_chunks(BytesIO(text.encode()), chunk_bytes=chunk_bytes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("detectors.formats.csv_logs.table._split", lambda *_: None)
        patch.setattr("detectors.formats.csv_logs.table._Table._parse_cells", lambda *_: None)
        slow = list(read_chunks(BytesIO(text.encode())))
    assert join_chunks(quick) == join_chunks(slow)


@pytest.mark.parametrize("row", [ROW, ROW.replace("openai", '"openai"').replace("10", '"10"')])
def test_a_piece_without_errors_is_never_read_row_by_row(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{HEADER}\n" + f"{row}\r\n" * 5_000
    monkeypatch.setattr("detectors.formats.csv_logs.rows.CsvText.read", None)
    chunks = list(read_chunks(BytesIO(text.encode()), chunk_bytes=4_096))
    assert sum(chunk.rows for chunk in chunks) == 5_000
