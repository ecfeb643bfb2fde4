"""Packages and what traces them, by name: OpenLLMetry's, OpenTelemetry's own, or OpenInference's.

`langchain_over_openai` traces each call twice: in LangChain, and in the package below it.
"""

import sys
from pkgutil import resolve_name

from exporting import STUB, call_anthropic, call_openai, provide

OPENTELEMETRY, OPENINFERENCE = "opentelemetry.instrumentation", "openinference.instrumentation"


def call_langchain() -> None:
    from langchain_anthropic import ChatAnthropic
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_openai import ChatOpenAI

    prompt = ChatPromptTemplate.from_messages([("user", "{question}")])
    openai = ChatOpenAI(model="gpt-4o", api_key="sk-stub", base_url=f"{STUB}/v1", max_tokens=64)
    anthropic = ChatAnthropic(model="claude-sonnet-4-6", api_key="sk-stub", base_url=STUB)
    for model in (openai, anthropic):
        (prompt | model).invoke({"question": "canary-question"})


ANTHROPIC = f"{OPENINFERENCE}.anthropic:AnthropicInstrumentor"
OPENAI = f"{OPENINFERENCE}.openai:OpenAIInstrumentor"
LANGCHAIN = f"{OPENINFERENCE}.langchain:LangChainInstrumentor"
TRACED = {
    "instrumentation_anthropic": (
        call_anthropic,
        f"{OPENTELEMETRY}.anthropic:AnthropicInstrumentor",
    ),
    "instrumentation_openai": (call_openai, f"{OPENTELEMETRY}.openai:OpenAIInstrumentor"),
    "instrumentation_openai_v2": (call_openai, f"{OPENTELEMETRY}.openai_v2:OpenAIInstrumentor"),
    "langchain_alone": (call_langchain, LANGCHAIN),
    "langchain_over_openai": (call_langchain, LANGCHAIN, OPENAI, ANTHROPIC),
    "openinference_anthropic": (call_anthropic, ANTHROPIC),
    "openinference_openai": (call_openai, OPENAI),
}
call, *instrumentors = TRACED[sys.argv[1]]
provider = provide()
for instrumentor in instrumentors:
    resolve_name(instrumentor)().instrument()
call()
provider.shutdown()
