"""opentelemetry-instrumentation-openai, of OpenLLMetry."""

from exporting import call_openai, provide
from opentelemetry.instrumentation.openai import OpenAIInstrumentor

provider = provide()
OpenAIInstrumentor().instrument()
call_openai()
provider.shutdown()
