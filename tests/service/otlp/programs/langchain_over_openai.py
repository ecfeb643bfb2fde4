"""LangChain over openai and anthropic, all three traced by OpenInference: each call twice."""

from exporting import STUB, provide
from langchain_anthropic import ChatAnthropic
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

provider = provide()
LangChainInstrumentor().instrument()
OpenAIInstrumentor().instrument()
AnthropicInstrumentor().instrument()
prompt = ChatPromptTemplate.from_messages([("user", "{question}")])
openai = ChatOpenAI(model="gpt-4o", api_key="sk-stub", base_url=f"{STUB}/v1", max_tokens=64)
anthropic = ChatAnthropic(model="claude-sonnet-4-6", api_key="sk-stub", base_url=STUB)
for model in (openai, anthropic):
    (prompt | model).invoke({"question": "canary-question"})
provider.shutdown()
