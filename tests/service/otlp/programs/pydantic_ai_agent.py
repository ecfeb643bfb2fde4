"""Agents of pydantic-ai: their span repeats the usage of the calls inside."""

import os

from exporting import STUB, provide
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

provider = provide()
content = os.environ["CONTENT"] == "on"
settings = InstrumentationSettings(tracer_provider=provider, include_content=content)
openai = OpenAIProvider(base_url=f"{STUB}/v1", api_key="sk-stub")
anthropic = AnthropicProvider(base_url=STUB, api_key="sk-stub")
models = (
    OpenAIChatModel("gpt-4o", provider=openai),
    AnthropicModel("claude-sonnet-4-6", provider=anthropic),
)
for model in models:
    agent = Agent(model, name="support", system_prompt="canary-system")
    agent.instrument = settings
    agent.run_sync("canary-question")
provider.shutdown()
