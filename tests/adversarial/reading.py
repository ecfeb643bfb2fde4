"""Read an attack as the service does, without its web process."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Final

from detectors.errors import DetectorError
from detectors.formats import V2, decode_batch, encode_chunk, read_chunks
from service.errors import ServiceError
from service.web.otlp.requests import READERS, read_request
from tests.adversarial.bodies import BODIES
from tests.adversarial.files import FILES, Attack
from tests.adversarial.spans import JSONS, PROTOBUFS

READ_BYTES: Final = 128 * 1024


def read_file(text: bytes) -> None:
    with suppress(DetectorError):
        for chunk in read_chunks(BytesIO(text), chunk_bytes=READ_BYTES, max_bytes=200 << 20):
            encode_chunk(chunk)


def read_body(text: bytes) -> None:
    with suppress(DetectorError):
        decode_batch(memoryview(text), V2)


def is_read(text: bytes, kind: str) -> bool:
    """Read a request of spans, and return whether it is accepted."""
    try:
        read_request(text, READERS[kind])
    except ServiceError:
        return False
    return True


def _read_spans(text: bytes, kind: str) -> None:
    is_read(text, kind)


SPANS: Final = {
    f"{kind.rpartition('/')[2]}: {name}": (kind, attack)
    for kind, attacks in zip(READERS, (PROTOBUFS, JSONS), strict=True)
    for name, attack in attacks.items()
}
ATTACKS: Final[dict[str, tuple[Callable[[bytes], None], Attack]]] = {
    **{name: (read_file, attack) for name, attack in FILES.items()},
    **{name: (read_body, attack) for name, attack in BODIES.items()},
    **{name: (partial(_read_spans, kind=kind), attack) for name, (kind, attack) in SPANS.items()},
}
