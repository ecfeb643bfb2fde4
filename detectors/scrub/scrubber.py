"""Raw logs, one after the other, into lines of counts: the only state is what was seen lately."""

from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from detectors.formats.sources import Advance
from detectors.scrub.calls import Call, call_of, encode_call
from detectors.scrub.echoes import Echoes, Snapshots
from detectors.scrub.nodes import Node
from detectors.scrub.shapes import sight
from detectors.scrub.summary import ECHO, NOT_JSON, SNAPSHOT, TOO_LONG, Summary
from detectors.scrub.texts import read_texts

_NODE: Final = msgspec.json.Decoder(Node)
_NODES: Final = msgspec.json.Decoder(list[Node])
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_WRITTEN_BYTES: Final = 1 << 20


class Scrubber:
    """Reads logs and yields what is to be written; counts what it leaves out."""

    def __init__(self) -> None:
        self.summary = Summary()
        self._echoes = Echoes()
        self._messages = Echoes()
        self._snapshots = Snapshots()

    def read(self, file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes]:
        """The lines of one log's calls, about a mebibyte at a time."""
        self.summary.files += 1
        kept, size = list[bytes](), 0
        for text in read_texts(file, advance):
            for line in self._lines_of(text):
                kept.append(line)
                size += len(line) + 1
                if size >= _WRITTEN_BYTES:
                    yield self._join(kept)
                    kept, size = [], 0
        kept += self._close_messages()
        yield self._join(kept)

    def _join(self, lines: list[bytes]) -> bytes:
        lines.append(b"")
        joined = b"\n".join(lines)
        self.summary.bytes_written += len(joined)
        return joined

    def _lines_of(self, text: bytes | None) -> Iterator[bytes]:
        if text is None:
            self.summary.dropped[TOO_LONG] += 1
            return
        self.summary.bytes_read += len(text) + 1
        for node in self._decode(text):
            seen = sight(node)
            call = seen if isinstance(seen, str) else call_of(seen)
            if isinstance(call, str):
                self.summary.dropped[call] += 1
            elif not isinstance(seen, str) and seen.is_snapshot:
                yield from self._take_snapshot(call)
            else:
                yield from self._take(call)

    def _decode(self, text: bytes) -> list[Node]:
        """The object, or those of a page of an interface's answer."""
        try:
            node = _NODE.decode(text)
            if node.usage is None and bytes(node.data).startswith(b"["):
                return _NODES.decode(node.data)
        except _NOT_JSON:
            if text.strip():
                self.summary.dropped[NOT_JSON] += 1
            return []
        return [node]

    def _take(self, call: Call) -> Iterator[bytes]:
        line = encode_call(call)
        if call.request_id is not None and not self._echoes.is_new(line):
            self.summary.dropped[ECHO] += 1
            return
        self.summary.calls += 1
        self.summary.hashed += call.prefix_hash is not None
        yield line

    def _take_snapshot(self, call: Call) -> Iterator[bytes]:
        if not self._snapshots.add(call):
            self.summary.dropped[SNAPSHOT] += 1
        for closed in self._snapshots.close():
            yield from self._take_message(closed)

    def _close_messages(self) -> list[bytes]:
        closed = self._snapshots.close(is_end=True)
        return [line for call in closed for line in self._take_message(call)]

    def _take_message(self, call: Call) -> Iterator[bytes]:
        """A session that is taken up again repeats the messages of the one before."""
        if self._messages.is_new(call.request_id or ""):
            yield from self._take(call)
        else:
            self.summary.dropped[ECHO] += 1
