"""Calls models as a program does that uses LiteLLM, DSPy or CrewAI, with the client on.

`python -m tests.client.frameworks.calls litellm` prints, as JSON, what was recorded of each way to
make a call, what its answer counted, and how many requests the providers answered.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import tallystick
from tallystick import capture
from tests.client.frameworks.stub import FrameworkStub
from tests.client.matrix import counts_of, take_records
from tests.client.provider_stub import (
    CHAT_COUNTS,
    EMBEDDINGS_COUNTS,
    MESSAGES_COUNTS,
    RESPONSES_COUNTS,
)

MESSAGES = [{"role": "user", "content": "canary-7f3a asked"}]
# The model, where its provider is, the provider of its record, and what an answer counts.
CHATS = json.loads(Path(__file__).with_name("chats.json").read_text())


class Program:
    def __init__(self, stub: FrameworkStub) -> None:
        self.stub = stub
        self.rows: list[dict[str, Any]] = []
        self._loop = asyncio.new_event_loop()

    def note(self, name: str, expected: list[Any], call: Any) -> None:
        """Make a call, which may be a coroutine, and note what was recorded of it."""
        take_records()
        before, problem = len(self.stub.seen), ""
        try:
            answer = call()
            if asyncio.iscoroutine(answer):
                answer = self._loop.run_until_complete(answer)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:300]
        gc.collect()
        records = take_records()
        row = {"name": name, "expected": expected, "found": [counts_of(each) for each in records]}
        requests = len(self.stub.seen) - before
        self.rows.append({**row, "records": records, "requests": requests, "problem": problem})


def _place(model: str, url: str, path: str) -> dict[str, Any]:
    """Return the arguments that lead LiteLLM to the stub."""
    given: dict[str, Any] = {"model": model, "messages": MESSAGES, "max_tokens": 64}
    if model.startswith("bedrock"):
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        return {**given, **keys, "aws_region_name": "eu-1", "aws_bedrock_runtime_endpoint": url}
    if model.startswith("azure"):
        given["api_version"] = "2024-10-21"
    return {**given, "api_key": "sk-canary-7f3a", "api_base": f"{url}{path}"}


def _chat(program: Program, litellm: Any, row: tuple[Any, ...]) -> None:
    model, path, _, counts = row
    asked = _place(model, program.stub.url, path)
    streamed = {**asked, "stream": True, "stream_options": {"include_usage": True}}

    async def stream() -> None:
        async for _ in await litellm.acompletion(**streamed):
            pass

    program.note(f"{model}", [counts], lambda: litellm.completion(**asked))
    program.note(f"{model}, async", [counts], lambda: litellm.acompletion(**asked))
    if not model.startswith("cohere"):  # which LiteLLM cannot read here
        program.note(f"{model}, stream", [counts], lambda: [*litellm.completion(**streamed)])
    program.note(f"{model}, async stream", [counts], stream)


def _responses(program: Program, litellm: Any) -> None:
    url = program.stub.url
    for model, path, counts in (
        ("openai/gpt-4o", "/v1", RESPONSES_COUNTS),
        ("azure/gpt-4o", "", RESPONSES_COUNTS),
        ("anthropic/claude-sonnet-4-6", "", MESSAGES_COUNTS),
    ):
        asked = {"model": model, "input": "canary-7f3a asked", "max_output_tokens": 64,
                 "api_key": "k", "api_base": f"{url}{path}"}  # fmt: skip

        async def stream(asked: dict[str, Any] = asked) -> None:
            async for _ in await litellm.aresponses(**asked, stream=True):
                pass

        def ask(asked: dict[str, Any] = asked, **more: Any) -> Any:
            return litellm.responses(**asked, **more)

        program.note(f"responses {model}", [counts], ask)
        program.note(f"responses {model}, stream", [counts], lambda ask=ask: [*ask(stream=True)])
        program.note(f"responses {model}, async stream", [counts], stream)


def _embeddings(program: Program, litellm: Any) -> None:
    for model in ("openai/text-embedding-3-small", "mistral/mistral-embed", "hosted_vllm/e"):
        place = {"api_key": "k", "api_base": f"{program.stub.url}/v1", "input": ["asked"]}

        def embed(model: str = model, place: Any = place) -> Any:
            return litellm.embedding(model=model, **place)

        program.note(f"embedding {model}", [EMBEDDINGS_COUNTS], embed)


def _beyond_one_request(program: Program, litellm: Any) -> None:
    """Retries, a router with a fallback, and LiteLLM's own cache."""
    stub = program.stub
    claude = _place("anthropic/claude-sonnet-4-6", stub.url, "")
    chat = _place("openai/gpt-4o", stub.url, "/v1")

    def failing(count: int, call: Any) -> Any:
        stub.failing = count
        return call()

    def retried() -> Any:
        return failing(1, lambda: litellm.completion(**claude, num_retries=2))

    def routed() -> Any:
        models = [
            {
                "model_name": name,
                "litellm_params": {k: v for k, v in each.items() if k != "messages"},
            }
            for name, each in (("main", claude), ("other", chat))
        ]
        router = litellm.Router(model_list=models, fallbacks=[{"main": ["other"]}], num_retries=0)
        return failing(1, lambda: router.completion(model="main", messages=MESSAGES))

    program.note("a retry", [MESSAGES_COUNTS], retried)
    program.note("a router's fallback", [CHAT_COUNTS], routed)
    program.note("a failure", [], lambda: failing(1, lambda: litellm.completion(**claude)))
    caching = importlib.import_module("litellm.caching.caching")
    litellm.cache = caching.Cache(type="local")
    for name, counts in (("before the cache", [MESSAGES_COUNTS]), ("from the cache", [])):
        program.note(name, counts, lambda: litellm.completion(**claude, caching=True))
        time.sleep(0.2)
    litellm.cache = None


def call_litellm(program: Program) -> None:
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    for row in CHATS:
        _chat(program, litellm, row)
    _responses(program, litellm)
    _embeddings(program, litellm)
    _beyond_one_request(program, litellm)


def call_dspy(program: Program) -> None:
    """With DSPy's own engine, and with LiteLLM."""
    dspy: Any = importlib.import_module("dspy")
    for engine, model, path, counts in (
        ("auto", "openai/gpt-4o", "/v1", CHAT_COUNTS),
        ("auto", "anthropic/claude-sonnet-4-6", "", MESSAGES_COUNTS),
        ("litellm", "openai/gpt-4o", "/v1", CHAT_COUNTS),
        ("litellm", "anthropic/claude-sonnet-4-6", "", MESSAGES_COUNTS),
        ("litellm", "deepseek/deepseek-chat", "/v1", CHAT_COUNTS),
    ):
        place = {"api_key": "k", "api_base": f"{program.stub.url}{path}", "max_tokens": 64}
        _ask_dspy(
            program,
            f"{engine}, {model}",
            [counts],
            {
                "dspy": dspy,
                "model": model,
                **place,
                **({"engine": engine} if engine != "auto" else {}),
            },
        )
    embedder = dspy.Embedder("openai/text-embedding-3-small", api_key="k",
                             api_base=f"{program.stub.url}/v1", caching=False)  # fmt: skip
    program.note("dspy Embedder", [EMBEDDINGS_COUNTS], lambda: embedder(["asked"]))


def _ask_dspy(program: Program, name: str, counts: list[Any], asked: dict[str, Any]) -> None:
    dspy = asked.pop("dspy")
    lm = dspy.LM(cache=False, num_retries=0, **asked)
    program.note(f"dspy {name}", counts, lambda: lm("canary-7f3a asked"))
    program.note(f"dspy {name}, async", counts, lambda: lm.acall("canary-7f3a asked"))
    cached = dspy.LM(cache=True, num_retries=0, **asked)
    program.note(f"dspy {name}, to its cache", counts, lambda: cached(f"asked again: {name}"))
    program.note(f"dspy {name}, from its cache", [], lambda: cached(f"asked again: {name}"))


def call_crewai(program: Program) -> None:
    crewai: Any = importlib.import_module("crewai")
    for model, path, counts in (
        ("openai/gpt-4o", "/v1", CHAT_COUNTS),
        ("openrouter/openai/gpt-4o", "/v1", CHAT_COUNTS),
        ("mistral/mistral-large-latest", "/v1", CHAT_COUNTS),
        ("together_ai/m", "/v1", CHAT_COUNTS),
    ):
        url = f"{program.stub.url}{path}"
        llm = crewai.LLM(model=model, api_key="k", base_url=url, api_base=url, max_tokens=64)
        program.note(f"crewai {model}", [counts], lambda llm=llm: llm.call("canary-7f3a asked"))
        agent = crewai.Agent(role="r", goal="g", backstory="b", llm=llm, verbose=False)
        task = crewai.Task(description="d", expected_output="e", agent=agent)
        crew = crewai.Crew(agents=[agent], tasks=[task], verbose=False)
        program.note(f"crewai crew, {model}", [counts], crew.kickoff)


CALLS = {"litellm": call_litellm, "dspy": call_dspy, "crewai": call_crewai}


def main() -> None:
    tallystick.init(dsn="http://ik_test@127.0.0.1:9", flush_interval=600)
    output, sys.stdout = sys.stdout, sys.stderr  # which the libraries write to
    with FrameworkStub() as stub:
        program = Program(stub)
        CALLS[sys.argv[1]](program)
    output.write(json.dumps({"rows": program.rows, "faults": tallystick.stats()["faults"]}))
    capture.active = None
    output.flush()
    os._exit(0)  # their threads would wait for their own servers


if __name__ == "__main__":
    main()
