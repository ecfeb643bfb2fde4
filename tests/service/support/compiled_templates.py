"""Compile each template once per test process, not once per application."""

from types import CodeType
from typing import Final

from jinja2.bccache import Bucket, BytecodeCache


class _CompiledTemplates(BytecodeCache):
    """Code alone, by the name, place and text of its template: nothing that a test could change."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED_TEMPLATES: Final = _CompiledTemplates()
