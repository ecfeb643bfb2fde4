"""Read an attack as the service does, without its web process."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from typing import Final

from detectors.errors import DetectorError
from detectors.formats import V2, decode_batch, encode_chunk, read_chunks
from service.core.tokens import begin_series_hash
from service.errors import ServiceError
from service.web.otlp.agent_metrics import MetricReading
from service.web.otlp.requests import METRIC_READERS, READERS, read_request
from tests.adversarial.bodies import BODIES
from tests.adversarial.files import FILES, Attack
from tests.adversarial.metrics import JSON_METRICS, PROTOBUF_METRICS, START
from tests.adversarial.spans import JSONS, PROTOBUFS

READ_BYTES: Final = 128 * 1024


def read_file(text: bytes) -> None:
    with suppress(DetectorError):
        for chunk in read_chunks(BytesIO(text), chunk_bytes=READ_BYTES, max_bytes=200 << 20):
            encode_chunk(chunk)


def read_body(text: bytes) -> None:
    with suppress(DetectorError):
        decode_batch(memoryview(text), V2)


def are_spans_read(text: bytes, kind: str) -> bool:
    """Read a request of spans, and return whether it is accepted."""
    try:
        read_request(text, READERS[kind])
    except ServiceError:
        return False
    return True


def are_metrics_read(text: bytes, kind: str) -> bool:
    """Read a request of metrics, and return whether it is accepted."""
    now = datetime.fromtimestamp(START, UTC)
    try:
        METRIC_READERS[kind](text, MetricReading(begin_series_hash("secret", "account"), now))
    except ServiceError:
        return False
    return True


SPANS: Final[dict[str, tuple[Callable[[bytes], bool], Attack]]] = {
    f"{kind.rpartition('/')[2]}: {of}{name}": (partial(is_read, kind=kind), attack)
    for of, is_read, encodings in (
        ("", are_spans_read, (PROTOBUFS, JSONS)),
        ("metrics, ", are_metrics_read, (PROTOBUF_METRICS, JSON_METRICS)),
    )
    for kind, attacks in zip(READERS, encodings, strict=True)
    for name, attack in attacks.items()
}
ATTACKS: Final[dict[str, tuple[Callable[[bytes], object], Attack]]] = {
    **{name: (read_file, attack) for name, attack in FILES.items()},
    **{name: (read_body, attack) for name, attack in BODIES.items()},
    **SPANS,
}
