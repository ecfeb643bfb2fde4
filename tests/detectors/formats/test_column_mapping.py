"""CSV files with other column names: mapped, dropped by name, or refused with a proposal."""

import json
import re
import shlex
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import detectors
from detectors import ColumnMapping, cli
from detectors.errors import ColumnMappingError, ContractError, DetectorError, UnreadableLogError
from detectors.formats import TARGETS, Chunk, propose, read_chunks, read_pairs, records_of
from detectors.formats.csv_logs.mapping import as_mapping
from detectors.formats.csv_logs.names import SYNONYMS, UNNEEDED_COLUMNS, find_foreign_header
from detectors.formats.csv_logs.proposals import propose_for_table
from detectors.scrub import scrub
from tests.cases import each_case

FOREIGN = (
    "Created At,model_name,Input Tokens,output_tokens,cached,cost_usd\n"
    "2026-03-02T09:15:00Z,gpt-4o-mini,1200,85,200,0.12\n"
    '2026-03-02T09:15:09Z,gpt-4o-mini,1150,70,,"1,2"\n'
)
OURS = (
    "ts,provider,model,prompt_tokens,completion_tokens,cached_tokens\n"
    "2026-03-02T09:15:00Z,openai,gpt-4o-mini,1200,85,200\n"
    "2026-03-02T09:15:09Z,openai,gpt-4o-mini,1150,70,\n"
)
COLUMNS = {
    "created at": "ts",
    "model_name": "model",
    "Input Tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached": "cached_tokens",
}
MAPPING = ColumnMapping(COLUMNS, ["cost_usd"], "openai")
TEXT = "CANARY, said the customer"


def read(text: str, mapping: Any = None, **options: Any) -> list[Chunk]:
    return list(read_chunks(BytesIO(text.encode()), mapping=as_mapping(mapping), **options))


def records(text: str, mapping: Any = None) -> list[Any]:
    return [record for chunk in read(text, mapping) for record in records_of(chunk.columns)]


def refused(text: str, mapping: Any = None) -> DetectorError:
    with pytest.raises(DetectorError) as caught:
        read(text, mapping)
    assert "CANARY" not in str(caught.value)
    return caught.value


@each_case("delimiter", [",", ";", "\t"])
def test_a_mapped_csv_reads_as_one_with_our_names(delimiter: str) -> None:
    foreign = FOREIGN.replace('"1,2"', "1").replace(",", delimiter)
    assert records(foreign, MAPPING) == records(OURS)


def test_whole_lines_single_rows_and_positions_are_mapped_alike() -> None:
    broken = FOREIGN + "2026-03-02,gpt-4o-mini,CANARY,1,1,1\n2026-03-02,gpt-4o-mini,1\n"
    (chunk,) = read(broken, MAPPING)
    assert [row.line for row in chunk.invalid] == [4, 5]
    assert chunk.invalid[1].reason == "expected 6 cells"
    assert records_of(chunk.columns) == records(OURS)
    assert records(FOREIGN.replace('"1,2"', "1"), MAPPING) == records(OURS)
    # A column is named by position too.
    by_position = {"#1": "ts", "#2": "model", "#3": "prompt_tokens", "#4": "completion_tokens"}
    mapping = ColumnMapping(by_position | {"#5": "cached_tokens"}, ["#6"], "openai")
    assert records(FOREIGN, mapping) == records(OURS)


def test_prompt_tokens_without_the_cached_ones_are_added_up() -> None:
    text = (
        "ts,provider,model,input_tokens,completion_tokens,cached_tokens,cache_write_tokens\n"
        "2026-03-02,anthropic,claude-opus-4-1,10,2,300,4000\n"
        "2026-03-02 09:15:00 UTC,anthropic,claude-opus-4-1,10,2,,\n"
        "2026-03-02,anthropic,claude-opus-4-1,many,2,1,1\n"
    )
    (chunk,) = read(text, {"input_tokens": "uncached_prompt_tokens"})
    assert chunk.columns["prompt_tokens"] == [4310, 10]
    assert [row.line for row in chunk.invalid] == [4]


@each_case(
    ("change", "sentence"),
    [
        ({"Zeit": "tag"}, "The file has no column Zeit:"),
        ({"CANARY, in it": "tag"}, "The file has no column of one name in the mapping:"),
        ({"#7": "tag"}, "The file has no column"),
        ({"cost_usd": "model"}, "Two columns become model: map one and drop the other."),
        ({"cost_usd": "uncached_prompt_tokens"}, "Two columns become prompt_tokens:"),
        ({"#1": "ts"}, "A column is mapped twice: by its name and its position."),
        ({"#2": None}, "A column is both mapped and dropped."),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(change: dict[str, Any], sentence: str) -> None:
    given = COLUMNS | {"cost_usd": None} | change
    dropped = [name for name, field in given.items() if field is None]
    columns = {name: field for name, field in given.items() if field is not None}
    error = refused(FOREIGN, ColumnMapping(columns, dropped, "openai"))
    assert isinstance(error, ColumnMappingError)
    assert sentence in str(error)


def test_what_is_neither_mapped_nor_dropped_is_refused() -> None:
    totals = "date,model,api_requests,prompt_tokens,completion_tokens\n2026-09-01,gpt-4o,5,9,1\n"
    mapping = ColumnMapping({"date": "ts"}, ["api_requests"], "openai")
    assert "with totals instead of calls" in str(refused(totals, mapping))
    # A column that is neither mapped nor dropped is refused.
    error = refused(FOREIGN.replace("cost_usd", "cost_usd,CANARY in it"), COLUMNS)
    assert isinstance(error, ContractError)
    assert "neither mapped nor dropped: cost_usd, #7;" in str(error)
    # A column of text is dropped but never a label.
    text = FOREIGN.replace("cost_usd", "prompt").replace("0.12", f'"{TEXT}"')
    mapping = ColumnMapping(COLUMNS, ["prompt"], "openai")
    assert records(text, mapping) == records(OURS)
    error = refused(text, ColumnMapping(COLUMNS | {"prompt": "tag"}, [], "openai"))
    assert str(error) == "The column prompt holds text, which is never accepted: drop it."


def test_text_in_a_mapped_column_is_refused_as_in_our_own() -> None:
    text = FOREIGN.replace("0.12", f'"{TEXT * 20}"')
    (chunk,) = read(text, ColumnMapping(COLUMNS | {"cost_usd": "tag"}, [], "openai"))
    assert [row.line for row in chunk.invalid] == [2]
    assert "CANARY" not in chunk.invalid[0].reason


@each_case(
    ("columns", "dropped", "provider", "sentence"),
    [
        ({"a": "cost"}, [], "", "cost is not a field:"),
        ({"a": "CANARY, text"}, [], "", "A name in the mapping is not a field:"),
        ({}, [], "Open AI", "The provider must be a lowercase label"),
        ({}, [str(number) for number in range(1_001)], "", "Map at most 1,000 columns."),
    ],
)
def test_a_wrong_mapping_is_refused_before_the_file_is_read(
    columns: dict[str, str], dropped: list[str], provider: str, sentence: str
) -> None:
    with pytest.raises(ColumnMappingError, match=sentence):
        ColumnMapping(columns, dropped, provider)


def test_a_provider_given_twice_and_a_missing_field_are_named() -> None:
    assert "give no other provider" in str(refused(OURS, ColumnMapping(provider="openai")))
    # A missing field is named.
    assert str(refused(FOREIGN, {**COLUMNS, "cost_usd": None})).endswith("; add or map: provider.")


@each_case("name", ["cached,cached", "cached,Cached"])
def test_columns_of_one_name_are_named_by_position(name: str) -> None:
    text = FOREIGN.replace("cached", name).replace(",200,", ",200,1,").replace(",,", ",,,")
    error = refused(text, MAPPING)
    assert "several columns cached" in str(error)
    columns = {name: field for name, field in COLUMNS.items() if name != "cached"}
    by_position = ColumnMapping(columns | {"#5": "cached_tokens"}, ["#6", "cost_usd"], "openai")
    assert records(text, by_position) == records(OURS)


JSON: Final = (
    '{"Call":{"at":"2026-10-06T12:00:00Z","by":"gpt-5.4","in":9,"hit":"5","out":2,"note":7}}\n'
)
PATHS: Final = {
    **{"call.at": "ts", "call.by": "model", "call.in": "prompt_tokens"},
    **{"Call.hit": "cached_tokens", "call.out": "completion_tokens"},
}


@each_case("text", [JSON, f"[{JSON}]", f"{{\n{JSON[1:]}", JSON.replace('{"at', '{"a":{"b":1},"at')])
def test_members_of_json_are_mapped_by_dotted_paths(text: str) -> None:
    [record] = records(text, ColumnMapping(PATHS, provider="openai"))
    assert (record.model, record.prompt_tokens, record.cached_tokens) == ("gpt-5.4", 9, 5)
    [other] = records(text, ColumnMapping(PATHS | {"call.in": "uncached_prompt_tokens"}, (), "x"))
    assert other.prompt_tokens == 14
    within = json.dumps({"Call": json.dumps(json.loads(JSON)["Call"])})
    assert records(within, ColumnMapping(PATHS, provider="openai")) == [record]


def test_members_of_json_that_may_hold_text_are_mapped_or_dropped_by_name() -> None:
    text = JSON.replace("7}", '"CANARY, a text", "more": {"inner": "CANARY"}}')
    error = refused(text, ColumnMapping(PATHS, provider="openai"))
    assert "neither mapped nor dropped (Call.note, Call.more.inner) on object 1" in str(error)
    assert "CANARY" not in str(error)
    dropped = ColumnMapping(PATHS, ["call.note", "call.more"], "openai")
    assert len(records(text, dropped)) == 1


def test_mapped_members_exist_and_pairs_are_read_as_they_are_typed() -> None:
    error = refused(JSON, ColumnMapping({**PATHS, "call.tier": "service_tier"}, (), "openai"))
    assert "No object has a member tier" in str(error)
    # Text with a mapping is no csv.
    assert isinstance(refused(TEXT, {"a": "ts"}), UnreadableLogError)
    # An empty mapping changes nothing.
    assert records(OURS, {}) == records(OURS)
    assert read_pairs([]) is None
    # Pairs are read as they are typed.
    mapping = read_pairs(["a=b=ts", " Model Name = MODEL", "cost=", ""], "openai")
    assert mapping == ColumnMapping({"a=b": "ts", "Model Name": "model"}, ["cost"], "openai")
    assert mapping is not None
    assert mapping.parts == ("a=b=ts", "cost=", "model name=model", "openai")


@each_case("pairs", [["ts"], ["=ts"], ["a=ts", "a="], ["a=", "a="], ["a" * 201 + "="]])
def test_a_pair_that_cannot_be_read_is_refused(pairs: list[str]) -> None:
    with pytest.raises(ColumnMappingError):
        read_pairs(pairs)


def test_a_header_is_proposed_the_best_names_first() -> None:
    names = [name for synonyms in SYNONYMS.values() for name in synonyms]
    assert len(names) == len(set(names))
    assert SYNONYMS.keys() <= set(TARGETS)
    for field, synonyms in SYNONYMS.items():
        for name in synonyms:
            assert propose([name])[0].field in (field, f"uncached_{field}")
    # A header is proposed the best names first.
    header = ["ID", "Timestamp", "created_at", "request_model", "model", "input_tokens", "Prompt"]
    fields = [column.field for column in propose(header)]
    assert fields == ["request_id", "ts", "", "", "model", "prompt_tokens", ""]
    assert [column.name for column in propose(header) if column.is_text] == ["Prompt"]
    beside = propose(["input_tokens", "cache_read_input_tokens"])
    assert [column.field for column in beside] == ["uncached_prompt_tokens", "cached_tokens"]


def test_no_field_has_the_name_of_a_column_that_is_not_needed() -> None:
    fields = {*TARGETS, *(name for synonyms in SYNONYMS.values() for name in synonyms)}
    assert not UNNEEDED_COLUMNS & fields
    assert {"cost", "user_email"} <= UNNEEDED_COLUMNS
    # A foreign header is named by the error that refuses it.
    error = refused(FOREIGN)
    assert error.columns == tuple(FOREIGN.split("\n")[0].lower().split(","))
    assert refused(OURS.replace("cached_tokens", "cost")).columns[-1] == "cost"
    assert refused(TEXT).columns == ()
    assert not find_foreign_header("time,model,app and then some text")


def test_the_library_audits_a_mapped_file(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    ours.write_text(OURS)
    theirs.write_text(FOREIGN)
    log = detectors.read(theirs, mapping=MAPPING)
    assert log.frame.equals(detectors.read(ours).frame)
    with theirs.open("rb") as file:
        assert detectors.read(file, mapping=MAPPING).frame.equals(log.frame)
    report = detectors.audit(theirs, mapping=MAPPING)
    assert report.audit.total_spend_usd == detectors.audit(ours).audit.total_spend_usd
    with pytest.raises(TypeError):
        detectors.audit([], mapping=MAPPING)


def test_the_command_proposes_options_that_work(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text(FOREIGN.replace("cached,", "cached_input_tokens,"))
    run = CliRunner().invoke
    proposed = run(cli.library, ["audit", str(file)])
    assert proposed.exit_code == 2
    assert "--map '#1=ts'" in proposed.stderr
    assert "--drop cost_usd --provider openai" in proposed.stderr
    options = proposed.stderr.partition("each of them: ")[2].replace("'", "").split()
    audited = run(cli.library, ["audit", str(file), *options])
    assert audited.exit_code == 0
    assert "2 calls" in audited.stdout
    wrong = run(cli.library, ["audit", str(file), *options, "--map", "x"])
    assert wrong.stderr.startswith("Error: Map a column as theirs=ours")
    twice = run(cli.library, ["audit", str(file), *options[:-4]])
    assert "neither mapped nor dropped: cost_usd;" in twice.stderr
    assert "--map" not in twice.stderr


def test_scrub_reads_a_mapped_csv_under_its_own_rules(tmp_path: Path) -> None:
    raw, ours, out = (tmp_path / name for name in ("raw.csv", "ours.csv", "usage.jsonl"))
    text = FOREIGN.replace("cost_usd", "prompt,team").replace(',"1,2"', ",CANARY,a team")
    raw.write_text(text.replace(",0.12", f',"{TEXT}",support-bot') + "CANARY,,,,,,\n")
    ours.write_text(OURS.replace("tokens\n", "tokens,tag\n").replace("200\n", "200,support-bot\n"))
    mapping = ColumnMapping(COLUMNS | {"team": "tag"}, ["prompt"], "openai")
    summary = scrub([raw], out, mapping=mapping)
    assert (summary.calls, sum(summary.dropped.values())) == (2, 1)
    assert summary.bytes_read == raw.stat().st_size
    assert "CANARY" not in out.read_text() + str(summary)
    written = detectors.read(out).frame
    assert written["tag"].to_list() == ["support-bot", ""]
    assert written["prompt_tokens"].to_list() == [1200, 1150]


def test_the_scrub_command_takes_a_mapping(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw.csv", tmp_path / "usage.jsonl"
    raw.write_text(OURS.replace("cached_tokens", "cost"))
    done = CliRunner().invoke(cli.library, ["scrub", str(raw), "--out", str(out), "--drop", "cost"])
    assert done.exit_code == 0
    assert "Wrote 2 calls" in done.output
    wrong = CliRunner().invoke(
        cli.library, ["scrub", str(raw), "--out", str(out), "--drop", "Zeit"]
    )
    assert wrong.exit_code == 2
    assert "The file has no column Zeit:" in wrong.output


def test_the_columns_of_a_parquet_file_are_not_mapped() -> None:
    with pytest.raises(ColumnMappingError, match="This file is Parquet"):
        detectors.read("calls.parquet", mapping={"created_at": "ts"})


CELLS = (
    "created_at;model;usage;cost;user;user\n"
    '2026-09-01T10:00:00Z;gpt-5.4;"{""input"": {""all"": 1000, ""read"": 100}, ""output"": 50}";'
    f"1,2;{TEXT};7\n"
    '2026-09-01T10:01:00Z;gpt-5.4;"{""input"": {""all"": 2000}, ""output"": 60}";1,5;Ann;7\n'
    "2026-09-01T10:02:00Z;gpt-5.4;;;;\n"
    "2026-09-01T10:03:00Z;gpt-5.4\n"
)
CELL_PATHS = {
    "created_at": "ts",
    "model": "model",
    "usage.input.all": "prompt_tokens",
    "Usage.Input.Read": "cached_tokens",
    "#3.output": "completion_tokens",
    "cost": "reported_usd",
}


def test_a_path_reaches_into_the_json_of_a_cell() -> None:
    paths = {**CELL_PATHS, "usage.output": "completion_tokens"}
    del paths["#3.output"]
    mapping = ColumnMapping(paths, ["usage", "#5", "#6"], "openai")
    (chunk,) = read(CELLS, mapping)
    found = [(each.prompt_tokens, each.completion_tokens) for each in records_of(chunk.columns)]
    assert found == [(1_000, 50), (2_000, 60)]
    assert chunk.columns["cached_tokens"] == [100, 0]
    assert chunk.columns["reported_usd"] == [1.2, 1.5]
    assert [(row.line, row.reason) for row in chunk.invalid] == [
        (4, "without token counts: questions, errors, notes"),
        (5, "another number of cells"),
    ]


def test_a_path_may_begin_with_the_position_of_a_column() -> None:
    paths = {key.lower().replace("usage", "#3"): field for key, field in CELL_PATHS.items()}
    (chunk,) = read(CELLS, ColumnMapping(paths, ["#5", "#6"], "openai"))
    assert chunk.columns["prompt_tokens"] == [1_000, 2_000]


def test_texts_beside_a_path_are_dropped_by_name_or_refused() -> None:
    paths = {key.lower().replace("#3", "usage"): field for key, field in CELL_PATHS.items()}
    error = refused(CELLS, ColumnMapping(paths, [], "openai"))
    assert "neither mapped nor dropped (#5, #6)" in str(error)
    error = refused(CELLS, ColumnMapping({**paths, "usage.nothing": "tag"}, ["#5", "#6"], "openai"))
    assert str(error) == "No object has a member nothing: map members that exist."


def test_a_csv_with_usage_in_cells_is_scrubbed_and_audited_as_proposed(tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    cells = CELLS.replace('{""all"": 1000, ""read"": 100}', "1000").replace(
        '{""all"": 2000}', "2000"
    )
    file.write_text(cells.replace("input", "prompt_tokens").replace("output", "completion_tokens"))
    out = tmp_path / "usage.jsonl"
    assert scrub([file], out).calls == 2
    result = CliRunner().invoke(cli.main, ["audit", str(file)])
    (proposal,) = re.findall(r"--map .*", result.output)
    assert TEXT not in result.output
    json_file = tmp_path / "report.json"
    arguments = ["audit", str(file), "--json", str(json_file), *shlex.split(proposal)]
    assert CliRunner().invoke(cli.main, arguments).exit_code == 0
    audited = json.loads(json_file.read_text())["audit"]
    assert audited["total_spend_usd"] == float(detectors.audit(out).audit.total_spend_usd)
    assert audited["records"] == 2


def test_units_are_mapped_in_json_too() -> None:
    row = {"at": "2026-09-01T10:00:00Z", "llm": "veo-3", "p": 9, "c": 80, "v": 77}
    fields = {"at": "ts", "llm": "model", "p": "prompt_tokens", "c": "completion_tokens"}
    mapping = ColumnMapping({**fields, "v": "output_video_tokens"}, [], "google")
    (chunk,) = read(json.dumps(row), mapping)
    assert chunk.columns["output_video_tokens"] == [77]


def test_a_given_provider_has_precedence_in_json_and_a_lack_of_times_is_counted() -> None:
    row = {"provider": "my gateway", "p": 9, "c": 80}
    fields = {"p": "prompt_tokens", "c": "completion_tokens"}
    with pytest.raises(UnreadableLogError, match="without a time in any row"):
        read(json.dumps(row), ColumnMapping(fields, [], "google"))


def _providers(chunks: list[Chunk]) -> list[str]:
    return [each.provider for chunk in chunks for each in records_of(chunk.columns)]


def test_models_names_give_the_providers_of_a_csv_with_several() -> None:
    models = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "our-own-model")
    rows = [f"2026-03-02T09:15:0{at}Z,{model},1200,85" for at, model in enumerate(models)]
    names = ("created_at", "model", "input", "output")
    table = "\n".join([",".join(names), *rows])
    fields = {"created_at": "ts", "input": "prompt_tokens", "output": "completion_tokens"}
    mapping = ColumnMapping(fields, [], "by-model")
    expected = ["openai", "anthropic", "google", "unknown"]
    assert _providers(read(table, mapping)) == expected
    # A row with something unusual is read by itself.
    assert _providers(read(f"{table}\n1772442900,gpt-4o,1200.0,85", mapping)) == [
        *(*expected, "openai")
    ]
    objects = [json.dumps(dict(zip(names, row.split(","), strict=True))) for row in rows]
    assert _providers(read("\n".join(objects), mapping)) == expected
    assert "--provider by-model" in propose_for_table(table.encode(), ",")
