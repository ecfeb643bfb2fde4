"""Agents of the frameworks that people trace, each with a tool, by name: `pydantic_ai`.

The exporter's settings are the standard variables. `CONTENT` is `on` for prompts and answers, and
`off` for the switch that docs/api/otlp.md names.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

STUB = os.environ["STUB_URL"]
OPENAI = f"{STUB}/v1"
IS_ON = os.environ["CONTENT"] == "on"
QUESTION = "canary-question"
GPT, CLAUDE = "gpt-5.4", "claude-sonnet-4-6"


def provide() -> Any:
    """Set up the SDK with a batch of spans at the end, as every user has it."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def add(a: int, b: int) -> int:
    """Add the canary numbers."""
    return a + b


def pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = provide()
    for model in (
        OpenAIChatModel(GPT, provider=OpenAIProvider(base_url=OPENAI, api_key="k")),
        AnthropicModel(CLAUDE, provider=AnthropicProvider(base_url=STUB, api_key="k")),
    ):
        agent = Agent(model, name="sums", system_prompt=QUESTION, tools=[add])
        agent.instrument = InstrumentationSettings(tracer_provider=provider, include_content=IS_ON)
        agent.run_sync(QUESTION)
    provider.shutdown()


def strands() -> None:
    provider = provide()
    import boto3
    from strands import Agent, tool
    from strands.models.bedrock import BedrockModel
    from strands.models.openai import OpenAIModel

    session = boto3.Session("k", "k", region_name="us-east-1")
    claude = "us.anthropic.claude-sonnet-4-6"
    bedrock = BedrockModel(
        boto_session=session, model_id=claude, endpoint_url=STUB, streaming=False
    )
    openai = OpenAIModel(client_args={"api_key": "k", "base_url": OPENAI}, model_id=GPT)
    for model in (bedrock, openai):
        Agent(model=model, tools=[tool(add)], callback_handler=None)(QUESTION)
    provider.shutdown()


def google_adk() -> None:
    provider = provide()
    from google.adk.agents import Agent
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = Agent(name="sums", model="gemini-2.5-pro", instruction=QUESTION, tools=[add])
    runner = InMemoryRunner(agent=agent, app_name="app")

    async def run() -> None:
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass

    asyncio.run(run())
    provider.shutdown()


def agent_framework() -> None:
    provider = provide()
    from agent_framework import Agent
    from agent_framework.observability import enable_instrumentation
    from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
    from openai import AsyncOpenAI

    enable_instrumentation()
    for kind in (OpenAIChatCompletionClient, OpenAIChatClient):
        client = kind(model=GPT, async_client=AsyncOpenAI(base_url=OPENAI, api_key="k"))
        asyncio.run(Agent(client=client, tools=[add], name="sums").run(QUESTION))
    provider.shutdown()


def _langchain_models() -> list[Any]:
    from langchain_openai import ChatOpenAI

    models: list[Any] = [ChatOpenAI(model=GPT, base_url=OPENAI, api_key="k")]
    if sys.argv[1] != "openllmetry":
        from langchain_anthropic import ChatAnthropic

        models.append(ChatAnthropic(model=CLAUDE, base_url=STUB, api_key="k"))
    return models


def _langchain() -> None:
    from langchain.agents import create_agent

    for model in _langchain_models():
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        create_agent(model, tools=[add], name="sums").invoke(asked)


def langsmith() -> None:
    provider = provide()
    from langchain_core.tracers.langchain import wait_for_all_tracers

    _langchain()
    wait_for_all_tracers()
    provider.shutdown()


def _openai_agent() -> None:
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_trace_processors,
    )
    from openai import AsyncOpenAI

    if os.environ.get("ALONE"):
        set_trace_processors([])
    client = AsyncOpenAI(base_url=OPENAI, api_key="k")
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        model = kind(model=GPT, openai_client=client)
        agent = Agent(name="sums", instructions=QUESTION, tools=[function_tool(add)], model=model)
        Runner.run_sync(agent, QUESTION)


def _llama_index_agent() -> None:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.llms.openai import OpenAI

    llm = OpenAI(model="gpt-4o", api_base=OPENAI, api_key="k")

    async def run() -> None:
        await FunctionAgent(name="sums", tools=[add], llm=llm, system_prompt=QUESTION).run(QUESTION)

    asyncio.run(run())


def _crew() -> None:
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    llm = LLM(model=f"openai/{GPT}", base_url=OPENAI, api_key="k")
    agent = Agent(role="adder", goal=QUESTION, backstory=QUESTION, llm=llm, tools=[tool(add)])
    task = Task(description=QUESTION, expected_output=QUESTION, agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()


def langfuse() -> None:
    provider = provide()
    from langfuse import Langfuse

    client = Langfuse(
        public_key="k",
        secret_key="k",
        host=STUB,
        tracer_provider=provider,
        mask=None if IS_ON else (lambda *, data, **_: None),
    )
    from langfuse.openai import openai

    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    asked = {"model": GPT, "messages": [{"role": "user", "content": QUESTION}]}
    with client.start_as_current_observation(name="sums", as_type="agent"):
        openai.OpenAI(base_url=OPENAI, api_key="k").chat.completions.create(**asked, tools=[tool])
        openai.OpenAI(base_url=OPENAI, api_key="k").chat.completions.create(**asked)
    client.flush()
    provider.shutdown()


def _langchain_and_bedrock() -> None:
    _langchain()
    import boto3

    session = boto3.Session("k", "k", region_name="us-east-1")
    bedrock = session.client("bedrock-runtime", endpoint_url=STUB)
    message = {"role": "user", "content": [{"text": QUESTION}]}
    bedrock.converse(modelId="us.anthropic.claude-sonnet-4-6", messages=[message])


def _ask_anthropic() -> None:
    from anthropic import Anthropic

    client = Anthropic(base_url=STUB, api_key="k")
    tool: Any = {"name": "add", "description": "canary", "input_schema": {"type": "object"}}
    asked: Any = {"model": CLAUDE, "max_tokens": 9}
    asked["messages"] = [{"role": "user", "content": QUESTION}]
    client.messages.create(**asked, tools=[tool])
    with client.messages.stream(**asked) as stream:
        for _ in stream:
            pass


def _ask_openai() -> None:
    from openai import OpenAI

    client = OpenAI(base_url=OPENAI, api_key="k")
    tool: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    messages: Any = [{"role": "user", "content": QUESTION}]
    client.chat.completions.create(model=GPT, messages=messages, tools=[tool])
    client.responses.create(model=GPT, input=QUESTION)


def logfire() -> None:
    import logfire as library

    library.configure(send_to_logfire=False, console=False)
    library.instrument_openai()
    library.instrument_anthropic()
    _ask_openai()
    _ask_anthropic()
    library.shutdown()


def openlit() -> None:
    import openlit as library

    provider = provide()
    library.init(capture_message_content=IS_ON, disable_metrics=True)
    _ask_openai()
    _ask_anthropic()
    provider.shutdown()


def litellm() -> None:
    import litellm as library
    from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig

    library.turn_off_message_logging = not IS_ON
    endpoint = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    library.callbacks = [
        OpenTelemetry(OpenTelemetryConfig(exporter="otlp_http", endpoint=endpoint))
    ]
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": QUESTION}]
    more = {"messages": messages, "tools": [tool], "api_key": "k"}
    library.completion(model=f"openai/{GPT}", api_base=OPENAI, **more)
    library.completion(model=f"anthropic/{CLAUDE}", api_base=STUB, **more)
    import time

    from opentelemetry import trace

    time.sleep(1)
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]


def _claude_agent() -> None:
    from claude_agent_sdk import ClaudeAgentOptions, query

    home = os.environ["HOME"]
    env = {
        "HOME": home,
        "ANTHROPIC_BASE_URL": STUB,
        "ANTHROPIC_API_KEY": "sk-ant-api03-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CONFIG_DIR": f"{home}/.claude",
    }
    options = ClaudeAgentOptions(cwd=home, env=env, max_turns=1, model=CLAUDE, allowed_tools=[])

    async def run() -> None:
        async for _ in query(prompt=QUESTION, options=options):
            pass

    asyncio.run(run())


# What asks, and whose instrumentations trace it.
OPENINFERENCE, OPENLLMETRY = "openinference.instrumentation", "opentelemetry.instrumentation"
GENAI = "opentelemetry.instrumentation.genai"
TRACED: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "anthropic_sdk": (_ask_anthropic, ()),
    "claude_agent": (
        _claude_agent,
        (f"{OPENINFERENCE}.claude_agent_sdk:ClaudeAgentSDKInstrumentor",),
    ),
    "crewai": (
        _crew,
        (
            f"{OPENINFERENCE}.crewai:CrewAIInstrumentor",
            f"{OPENINFERENCE}.openai:OpenAIInstrumentor",
        ),
    ),
    "genai_anthropic": (_ask_anthropic, (f"{GENAI}.anthropic:AnthropicInstrumentor",)),
    "genai_openai": (_ask_openai, (f"{GENAI}.openai:OpenAIInstrumentor",)),
    "llama_index": (_llama_index_agent, (f"{OPENINFERENCE}.llama_index:LlamaIndexInstrumentor",)),
    "openai_agents": (
        _openai_agent,
        (f"{OPENINFERENCE}.openai_agents:OpenAIAgentsInstrumentor",),
    ),
    "openinference_anthropic": (
        _ask_anthropic,
        (f"{OPENINFERENCE}.anthropic:AnthropicInstrumentor",),
    ),
    "openinference_langchain": (_langchain, (f"{OPENINFERENCE}.langchain:LangChainInstrumentor",)),
    "openllmetry": (
        _langchain_and_bedrock,
        (
            f"{OPENLLMETRY}.langchain:LangchainInstrumentor",
            f"{OPENLLMETRY}.bedrock:BedrockInstrumentor",
        ),
    ),
    "openllmetry_crewai": (
        _crew,
        (f"{OPENLLMETRY}.crewai:CrewAIInstrumentor", f"{OPENLLMETRY}.openai:OpenAIInstrumentor"),
    ),
    "openllmetry_llama_index": (
        _llama_index_agent,
        (
            f"{OPENLLMETRY}.llamaindex:LlamaIndexInstrumentor",
            f"{OPENLLMETRY}.openai:OpenAIInstrumentor",
        ),
    ),
    "openllmetry_openai_agents": (
        _openai_agent,
        (f"{OPENLLMETRY}.openai_agents:OpenAIAgentsInstrumentor",),
    ),
}


def run(name: str) -> None:
    if name not in TRACED:
        globals()[name]()
        return
    ask, instrumentors = TRACED[name]
    provider = provide()
    for instrumentor in instrumentors:
        resolve_name(instrumentor)().instrument(tracer_provider=provider)
    ask()
    provider.shutdown()


if __name__ == "__main__":
    run(sys.argv[1])
