"""opentelemetry-instrumentation-anthropic, of OpenLLMetry."""

from exporting import call_anthropic, provide
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

provider = provide()
AnthropicInstrumentor().instrument()
call_anthropic()
provider.shutdown()
