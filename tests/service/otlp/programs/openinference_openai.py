"""openinference-instrumentation-openai, of Arize."""

from exporting import call_openai, provide
from openinference.instrumentation.openai import OpenAIInstrumentor

provider = provide()
OpenAIInstrumentor().instrument()
call_openai()
provider.shutdown()
