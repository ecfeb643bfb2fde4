"""The same call by every two ways into an account: counted once, by the ID of its answer.

The ways: the client over an SDK, traces as instrumentations and frameworks export them, and the
logs and exports of gateways. Which of them lack that ID is checked here and said in the guides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import combinations
from typing import Any, Final

import httpx2
import polars as pl
import pytest

import detectors
from detectors.formats import encode_records, read_chunks, records_of
from detectors.prices.book import PriceBook
from detectors.report.account import merge_files, sum_spend
from detectors.scrub.scrubber import Scrubber
from tests.cases import data_of
from tests.client import offline, provider_stub
from tests.client.environments import ROOT
from tests.client.offline import queued, say
from tests.client.provider_stub import Json
from tests.client.styles import CHAT, CLAUDE, STREAMED
from tests.lazily import openai
from tests.service.otlp.recording import EVERY, Program, export_path
from tests.service.otlp.requests import read
from tests.service.otlp.requests import records_of as records_of_spans

NOON: Final = datetime(2026, 10, 5, 12, tzinfo=UTC)
# The ID of an exchange's answer, and of its answer in the traces, which number theirs.
EXCHANGES: Final = {"chat": "chatcmpl-1", "messages": "msg_1", "openrouter": "gen-1"}
# Traces of OpenAI's chats that do not say the ID of each answer, and their names in the guide.
WITHOUT_ID: Final = {
    "openinference_openai": "openinference-instrumentation-openai",
    "langchain_alone": "openinference-instrumentation-langchain",
    "langchain_over_openai": "openinference-instrumentation-langchain",
    "logfire_sdk": "Logfire",
}
# One exchange in the logs and exports of gateways, with the ID of its answer.
CHATS: Final[dict[str, Json]] = data_of(__file__)["chats"]
TEXT_OF_LOGFIRE: Final = (b"gen_ai.input.messages", b"gen_ai.output.messages")


def from_log(*rows: Json) -> list[Json]:
    """The records of a log of other programs, after `scrub`, which takes its text out."""
    log = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    scrubbed = b"".join(Scrubber().read(BytesIO(log)))
    found = [each for chunk in read_chunks(BytesIO(scrubbed)) for each in records_of(chunk.columns)]
    return [json.loads(line) for line in encode_records(found).splitlines()]


def _spans(program: Program) -> list[Json]:
    body = export_path(program.name, "off").read_bytes()
    for text in TEXT_OF_LOGFIRE:  # a collector drops them, since Logfire has no switch
        body = body.replace(text, b"x" * len(text))
    return records_of_spans(read(body))


def _from_traces() -> dict[str, Json]:
    """The answers of the recorded traces that say an ID, by program and exchange."""
    found: dict[str, Json] = {}
    for program in EVERY:
        for record in _spans(program):
            start = record["request_id"].rstrip("0123456789")
            for answer_id in EXCHANGES.values():
                if start == answer_id.rstrip("1"):
                    found.setdefault(
                        f"{program.name}, {answer_id}", {**record, "request_id": answer_id}
                    )
    return found


def _at_openrouter(request: httpx2.Request) -> httpx2.Response:
    return say({**provider_stub.completion(), "id": "gen-1", "model": "openai/gpt-4o"})


def _openrouter() -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(_at_openrouter))
    url = "https://openrouter.ai/api/v1"
    return openai.OpenAI(api_key="k", base_url=url, http_client=http)


# What programs do, and the record that it makes.
CALLS: Final[dict[str, Callable[[], Any]]] = {
    "the client": lambda: offline.openai_client().chat.completions.create(**CHAT),
    "the client, stream": lambda: [*offline.openai_client().chat.completions.create(**STREAMED)],
    "the client, unparsed": lambda: (
        offline.openai_client().chat.completions.with_raw_response.create(**CHAT).text
    ),
    "the client, Anthropic": lambda: offline.anthropic_client().messages.create(**CLAUDE),
    "the client, Anthropic stream": lambda: [
        *offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    ],
    "the client, OpenRouter": lambda: _openrouter().chat.completions.create(**CHAT),
}


@pytest.fixture(scope="module")
def ways() -> dict[str, dict[str, Json]]:
    """The record of each exchange by each way, some seconds apart, as clocks and exports differ."""
    found = _from_traces()
    with offline.capturing("file:///dev/null", flush_interval=600):
        for name, call in CALLS.items():
            call()
            (found[name],) = queued()
    for name, row in CHATS.items():
        (found[name],) = from_log(row)
    by_exchange: dict[str, dict[str, Json]] = {exchange: {} for exchange in EXCHANGES}
    for number, (name, record) in enumerate(found.items()):
        moment = (NOON + timedelta(seconds=number)).isoformat()
        for exchange, answer_id in EXCHANGES.items():
            if record["request_id"] == answer_id:
                by_exchange[exchange][name] = {**record, "ts": moment}
    assert sum(map(len, by_exchange.values())) == len(found)
    return by_exchange


def frame_of(records: list[Json], name: str) -> pl.DataFrame:
    return detectors.read(records).frame.with_columns(pl.lit(name).alias("import_id"))


def test_a_call_that_any_two_ways_bring_counts_once(ways: dict[str, dict[str, Json]]) -> None:
    """Each pair of ways brings a call with an ID of the pair's own, all in the same two imports."""
    first: list[Json] = []
    second: list[Json] = []
    expected: list[Json] = []
    for records in ways.values():
        of_client = next(each for name, each in records.items() if name.startswith("the client"))
        for one, other in combinations(records.values(), 2):
            answer_id = f"{one['request_id']}-{len(first)}"
            first.append({**one, "request_id": answer_id})
            second.append({**other, "request_id": answer_id})
            expected.append(of_client)
    imports = [frame_of(first, "a"), frame_of(second, "b")]
    (file,) = merge_files(imports, months_before=date(2000, 1, 1))
    assert len(first) > 180
    assert file.frame["request_id"].n_unique() == file.frame.height == len(first)
    frames = [each.drop("import_id") for each in (file.frame, frame_of(expected, "c"))]
    merged, alone = (
        sum(line.cost_usd for line in lines) for lines in sum_spend(frames, PriceBook())
    )
    assert merged == alone > 0


def test_the_guide_names_the_traces_that_lack_the_id_of_an_answer() -> None:
    lacking = set()
    for program in EVERY:
        for record in _spans(program):
            is_chat = record["model"].startswith("gpt-4o")
            if is_chat and not record["request_id"].startswith(("chatcmpl-", "resp_")):
                lacking.add(program.name)
    assert lacking == WITHOUT_ID.keys()
    guide = (ROOT / "docs" / "api" / "otlp.md").read_text()
    for name in WITHOUT_ID.values():
        assert name in guide.partition("## Calls that arrive twice")[2].partition("##")[0]
