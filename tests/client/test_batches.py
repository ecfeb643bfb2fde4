"""Results of batches: each answer counts once, at the tier and the time of its batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import pytest

import tallystick
from detectors.report.account import merge_files
from tallystick.hooks import batches
from tests.client.offline import anthropic_client, async_anthropic_client, queued
from tests.client.provider_stub import MESSAGES_COUNTS, Json, message
from tests.client.providers.lookalikes import hooked
from tests.client.test_ways_in import frame_of, from_log

pytestmark = pytest.mark.usefixtures("captured")

URL: Final = "https://api.anthropic.com/v1/messages/batches/msgbatch_1"
ENDED: Final = "2026-11-20T10:30:00.250000Z"
BATCH: Final[Json] = {
    "id": "msgbatch_1", "type": "message_batch", "processing_status": "ended",
    "request_counts": {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 0},
    "created_at": "2026-11-20T10:00:00Z", "expires_at": "2026-11-21T10:00:00Z",
    "ended_at": ENDED, "cancel_initiated_at": None, "archived_at": None,
    "results_url": f"{URL}/results",
}  # fmt: skip


def _lines() -> list[Json]:
    said = [{**message(), "id": f"msg_{number}"} for number in (1, 2)]
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    results = [{"type": "succeeded", "message": each} for each in said]
    failed = {"type": "errored", "error": error}
    return [{"custom_id": "canary-7f3a", "result": each} for each in (*results, failed)]


def _answer(request: httpx2.Request) -> httpx2.Response:
    if request.url.path.endswith("/results"):
        body = "".join(json.dumps(line) + "\n" for line in _lines())
        return httpx2.Response(200, content=body.encode())
    return httpx2.Response(200, json=BATCH)


def _read(client: Any) -> list[Any]:
    return list(client.messages.batches.results("msgbatch_1"))


def _read_beta(client: Any) -> list[Any]:
    return list(client.beta.messages.batches.results(message_batch_id="msgbatch_1"))


async def _read_async(client: Any) -> list[Any]:
    return [each async for each in await client.messages.batches.results("msgbatch_1")]


WAYS: Final[dict[str, Callable[[], list[Any]]]] = {
    "sync": lambda: _read(anthropic_client.__wrapped__(_answer)),
    "beta": lambda: _read_beta(anthropic_client.__wrapped__(_answer)),
    "async": lambda: asyncio.run(_read_async(async_anthropic_client.__wrapped__(_answer))),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_message_of_a_batch_counts_when_it_is_read(way: str) -> None:
    with tallystick.tag("nightly"):
        results = WAYS[way]()
    assert [each.result.type for each in results] == ["succeeded", "succeeded", "errored"]
    records = queued()
    assert [record["request_id"] for record in records] == ["msg_1", "msg_2"]
    for record in records:
        assert (record["ts"], record["service_tier"], record["tag"]) == (ENDED, "batch", "nightly")
        assert (record["prompt_tokens"], record["completion_tokens"]) == MESSAGES_COUNTS[:2]
        assert "latency_ms" not in record
        assert "canary-7f3a" not in json.dumps(record)
    assert tallystick.stats()["faults"] == 0


def test_a_result_that_is_not_read_counts_nowhere_and_one_read_again_has_the_same_time() -> None:
    client = anthropic_client.__wrapped__(_answer)
    decoder = client.messages.batches.results("msgbatch_1")
    next(decoder)
    decoder.close()
    (once,) = queued()
    _read(client)
    assert queued()[0] == once


def test_a_batch_whose_results_are_uploaded_too_counts_once() -> None:
    _read(anthropic_client.__wrapped__(_answer))
    uploaded = from_log(*({**line, "ts": "2026-11-20T10:30:00Z"} for line in _lines()))
    imports = [frame_of(queued(), "client"), frame_of(uploaded, "upload")]
    (file,) = merge_files(imports, months_before=date(2000, 1, 1))
    assert sorted(file.frame["request_id"]) == ["msg_1", "msg_2"]
    assert set(file.frame["service_tier"]) == {"batch"}


def test_a_raw_response_is_returned_as_it_is() -> None:
    client = anthropic_client.__wrapped__(_answer)
    raw = client.messages.batches.with_raw_response.results("msgbatch_1")
    assert raw.http_response.status_code == 200
    assert tallystick.stats()["faults"] == 0


# --- Gemini's, as google-genai 3.6 has them

GEMINI_USAGE: Final = SimpleNamespace(
    prompt_token_count=1_000,
    candidates_token_count=50,
    thoughts_token_count=200,
    cached_content_token_count=800,
    total_token_count=1_250,
    hologram_token_count=7,
)


def _job(**more: Any) -> Any:
    grounding = SimpleNamespace(web_search_queries=["canary-7f3a a", "canary-7f3a b"])
    answers = [
        SimpleNamespace(
            usage_metadata=GEMINI_USAGE,
            model_version="gemini-3-pro-preview",
            response_id=answer_id,
            candidates=[SimpleNamespace(finish_reason="STOP", grounding_metadata=grounding)],
        )
        for answer_id in ("resp-1", None)
    ]
    items = [SimpleNamespace(response=answer, error=None) for answer in answers]
    failed = SimpleNamespace(response=None, error=SimpleNamespace(message="canary-7f3a"))
    job = {
        "name": "batches/b1",
        "model": "models/gemini-3-pro-preview",
        "state": JobState.SUCCEEDED,
        "end_time": datetime(2026, 11, 20, 10, 30, 0, 250_000, UTC),
        "dest": SimpleNamespace(inlined_responses=[*items, failed]),
    }
    return SimpleNamespace(**{**job, **more})


class JobState(Enum):
    SUCCEEDED = "JOB_STATE_SUCCEEDED"
    RUNNING = "JOB_STATE_RUNNING"


def _get(job: Any) -> None:
    """Get a job twice, in both ways."""

    class Batches:
        _api_client = SimpleNamespace(_http_options=SimpleNamespace(base_url="https://x.example"))

        def get(self, *, name: str) -> Any:
            return job

    class AsyncBatches(Batches):
        async def get(self, *, name: str) -> Any:
            return job

    hooked("google.genai.batches", Batches=Batches, AsyncBatches=AsyncBatches)
    batches._read.clear()
    assert Batches().get(name=job.name) is job
    assert asyncio.run(AsyncBatches().get(name=job.name)) is job


def test_answers_of_a_gemini_batch_count_once_when_the_program_gets_the_job() -> None:
    with tallystick.tag("nightly"):
        _get(_job())
    records = queued()
    assert [record["request_id"] for record in records] == ["resp-1", "batches/b1.1"]
    for record in records:
        assert (record["ts"], record["service_tier"], record["tag"]) == (ENDED, "batch", "nightly")
        assert (record["provider"], record["model"]) == ("google", "gemini-3-pro-preview")
        assert (record["prompt_tokens"], record["completion_tokens"]) == (1_000, 250)
        assert (record["cached_tokens"], record["web_searches"]) == (800, 2)
        assert "canary-7f3a" not in json.dumps(record)
    stats = tallystick.stats()
    assert (stats["faults"], stats["uncaptured"]) == (0, {})
    assert stats["unknown_fields"] == {"hologram_token_count": {"calls": 2, "largest": 7}}


def test_embeddings_of_a_gemini_batch_count_their_tokens() -> None:
    text = SimpleNamespace(embedding=SimpleNamespace(values=[0.5]), token_count=9)
    items = [SimpleNamespace(response=text, error=None)]
    dest = SimpleNamespace(inlined_embed_content_responses=items)
    _get(_job(model="models/gemini-embedding-001", dest=dest, end_time=None))
    (record,) = queued()
    assert (record["model"], record["endpoint"]) == ("gemini-embedding-001", "embeddings")
    assert (record["prompt_tokens"], record["completion_tokens"]) == (9, 0)
    assert (record["service_tier"], record["request_id"]) == ("batch", "batches/b1.0")


def test_a_gemini_batch_whose_answers_are_in_a_file_is_missed_once() -> None:
    _get(_job(state=JobState.RUNNING, dest=None))
    assert tallystick.stats()["uncaptured"] == {}
    _get(_job(dest=SimpleNamespace(file_name="files/canary-7f3a")))
    stats = tallystick.stats()
    assert (queued(), stats["uncaptured"], stats["without_usage"]) == ([], {"batches": 1}, 1)
    _get(_job(dest=SimpleNamespace(inlined_responses=[7]), name="b3", end_time="canary-7f3a"))
    assert tallystick.stats()["faults"] == 1  # a time that is none; the job is counted once
