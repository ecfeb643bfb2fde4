"""LangChain traced by OpenInference, without the instrumentations of the packages below it."""

from exporting import STUB, provide
from langchain_anthropic import ChatAnthropic
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor

provider = provide()
LangChainInstrumentor().instrument()
prompt = ChatPromptTemplate.from_messages([("user", "{question}")])
openai = ChatOpenAI(model="gpt-4o", api_key="sk-stub", base_url=f"{STUB}/v1", max_tokens=64)
anthropic = ChatAnthropic(model="claude-sonnet-4-6", api_key="sk-stub", base_url=STUB)
for model in (openai, anthropic):
    (prompt | model).invoke({"question": "canary-question"})
provider.shutdown()
