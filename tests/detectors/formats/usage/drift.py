"""Compare the names that the reader of usage knows with those of the installed libraries' types.

`make usage-drift` fails where a library knows a number that we don't; `make check` runs it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from detectors.formats.json_logs.usage.compiling import UNPRICED, all_fields
from detectors.formats.json_logs.usage.tables import FAMILIES

if TYPE_CHECKING:
    from pydantic import BaseModel

# A library's types of usage, by module and class, and the family of their names.
TYPES: Final = (
    ("tokens", "openai.types.completion_usage", "CompletionUsage"),
    ("tokens", "openai.types.create_embedding_response", "Usage"),
    ("tokens", "openai.types.responses.response_usage", "ResponseUsage"),
    ("tokens", "openai.types.responses.response", "ToolUsageImageGen"),
    ("tokens", "openai.types.batch_usage", "BatchUsage"),
    ("tokens", "openai.types.images_response", "Usage"),
    ("tokens", "openai.types.images_response", "SvgUsage"),
    ("tokens", "openai.types.audio.transcription", "UsageTokens"),
    ("tokens", "openai.types.audio.transcription", "UsageDuration"),
    ("tokens", "openai.types.live.session_usage", "SessionUsage"),
    ("tokens", "openai.types.decision", "Usage"),
    ("tokens", "openai.types.realtime.realtime_response_usage", "RealtimeResponseUsage"),
    ("tokens", "anthropic.types", "Usage"),
    ("tokens", "anthropic.types.beta", "BetaUsage"),
    ("tokens", "anthropic.types.beta", "BetaMessageDeltaUsage"),
    ("tokens", "anthropic.types.beta", "BetaMessageIterationUsage"),
    ("tokens", "anthropic.types.beta", "BetaAdvisorMessageIterationUsage"),
    ("tokens", "mistralai.client.models.usageinfo", "UsageInfo"),
    ("tokens", "mistralai.client.models.conversationusageinfo", "ConversationUsageInfo"),
    ("tokens", "mistralai.client.models.ocrusageinfo", "OCRUsageInfo"),
    ("tokens", "groq.types.completion_usage", "CompletionUsage"),
    ("tokens", "together.types.chat.chat_completion_usage", "ChatCompletionUsage"),
    ("tokens", "litellm.types.utils", "Usage"),
    ("gemini", "google.genai.types", "GenerateContentResponseUsageMetadata"),
    ("gemini", "google.genai.types", "UsageMetadata"),
    ("interactions", "google.genai._gaos.types.interactions.usage", "Usage"),
    ("cohere", "cohere.types.usage", "Usage"),
    ("cohere", "cohere.types.api_meta", "ApiMeta"),
)
# Members that are no numbers of a call: an ID of a map, and a limit of the connection.
NO_NUMBERS: Final = frozenset(("connectors",))
_NUMBERS: Final = ("int", "float")
_LIST: Final = re.compile(r"\[[^]]*\]")


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a value of this annotation may be, or may be made of."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_of(part)]


def numbers_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the paths of a model's numbers, at any depth."""
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name if not name.isidentifier() else name)
        inner = models_of(field.annotation)
        for each in inner:
            yield from numbers_of(each, f"{path}.")
        if not inner and any(kind in str(field.annotation) for kind in _NUMBERS):
            yield path


def numbers_of_bedrock() -> Iterator[str]:
    """Yield the paths of Bedrock's `TokenUsage`, from botocore's model of the service."""
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    yield from _numbers_of_shape(service.shape_for("TokenUsage"), "")


def _numbers_of_shape(shape: Any, prefix: str) -> Iterator[str]:
    for name, member in shape.members.items():
        inner = member.member if member.type_name == "list" else member
        if inner.type_name == "structure":
            yield from _numbers_of_shape(inner, f"{prefix}{name}.")
        elif inner.type_name in ("integer", "long", "float", "double"):
            yield prefix + name


def is_known(path: str, tree: Mapping[str, Any]) -> bool:
    """Check whether a path is in a family's names."""
    name, _, rest = path.partition(".")
    if name not in tree:
        return False
    inner = tree[name]
    if inner == () or (not rest and isinstance(inner, str)):
        return True
    if isinstance(inner, tuple):
        return any(is_known(rest, kind) for kind in inner[1].values())
    if not isinstance(inner, dict):
        return False
    return is_known(rest, inner) if rest else "" in inner


def unknown_numbers(
    families: Mapping[str, Any] = FAMILIES, note: Callable[[str], object] = str
) -> list[str]:
    """Return the numbers that a library knows and we don't; `note` is told what isn't installed."""
    fields = [item for family in all_fields().values() for item in family.items()]
    unpriced = {_LIST.sub("", path) for path, role in fields if role == UNPRICED}
    found = []
    for family, module, name in TYPES:
        try:
            model = getattr(importlib.import_module(module), name)
        except ImportError:
            note(f"{module} is not installed")
            continue
        found += [
            f"{module}.{name}: {path}"
            for path in numbers_of(model)
            if path not in NO_NUMBERS
            and not is_known(path, families[family])
            and path not in unpriced
        ]
    found += [
        f"botocore TokenUsage: {path}"
        for path in numbers_of_bedrock()
        if not is_known(path, families["camel"])
    ]
    return found + unknown_attributes()


def unknown_attributes() -> list[str]:
    """Return the usage attributes of OpenTelemetry's conventions that spans are not read for."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    names = [name for name in vars(gen_ai_attributes).values() if isinstance(name, str)]
    usage = [name for name in names if name.startswith("gen_ai.usage.")]
    return [f"OpenTelemetry: {name}" for name in usage if name not in FAMILIES["spans"]]


if __name__ == "__main__":
    missing = unknown_numbers(note=lambda text: sys.stderr.write(f"{text}\n"))
    sys.stdout.write("".join(f"{each}\n" for each in missing))
    sys.exit(bool(missing))
