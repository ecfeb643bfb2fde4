"""Turns raw logs into lines of counts; remembers only recent calls."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import msgspec

from detectors.formats.text.blocks import Advance
from detectors.scrub.calls import Call, Sighting, call_of, encode_call
from detectors.scrub.duplicates import DuplicateRows, Snapshots
from detectors.scrub.gateways import langfuse, litellm
from detectors.scrub.nodes import Node
from detectors.scrub.providers import batch, claude_code, exchange, node_of
from detectors.scrub.texts import read_texts

NOT_JSON: Final = "not JSON objects"
TOO_LONG: Final = "larger than 32 MiB"
DUPLICATE_ROW: Final = "calls logged more than once"
SNAPSHOT: Final = "partial snapshots of a message"

_NODE: Final = msgspec.json.Decoder(Node)
_NODES: Final = msgspec.json.Decoder(list[Node])
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_WRITTEN_BYTES: Final = 1 << 20


@dataclass
class Summary:
    """How many calls were written, and how many objects were dropped for which reason."""

    files: int = 0
    calls: int = 0
    hashed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons, most common first."""
        return sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))


class Scrubber:
    """Reads logs and yields lines of counts; counts what it drops."""

    def __init__(self) -> None:
        self.summary = Summary()
        self._rows = DuplicateRows()
        self._messages = DuplicateRows()
        self._snapshots = Snapshots()

    def read(self, file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes]:
        """Yield the lines of one log's calls, about a mebibyte at a time."""
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
        """Decode the object, or the objects of a page of an API response."""
        try:
            node = _NODE.decode(text)
            if node.usage is None and bytes(node.data).startswith(b"["):
                return _NODES.decode(node.data)
        except _UNREADABLE:
            if text.strip():
                self.summary.dropped[NOT_JSON] += 1
            return []
        return [node]

    def _take(self, call: Call) -> Iterator[bytes]:
        line = encode_call(call)
        if call.request_id is not None and not self._rows.is_new(line):
            self.summary.dropped[DUPLICATE_ROW] += 1
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
        """Write a message once: a resumed session repeats the messages of the earlier session."""
        if self._messages.is_new(call.request_id or ""):
            yield from self._take(call)
        else:
            self.summary.dropped[DUPLICATE_ROW] += 1


def sight(node: Node) -> Sighting | str:
    """Read a call from the object, or return the reason why it was not billed."""
    if isinstance(node.message, Node) and node.message.usage is not None:
        return claude_code(node, node.message)
    if isinstance(node.usageDetails or node.usage_details, dict) or node.promptTokens is not None:
        return langfuse(node)
    if node.call_type is not None:
        return litellm(node)
    answer = node.response if isinstance(node.response, Node | str) else None
    response = node_of(answer)
    if isinstance(response.body, Node):
        return batch(node, response.body)
    if isinstance(node.result, Node):
        return batch(node, node_of(node.result.message))
    if answer is not None or node.request is not None:
        return exchange(node, node_of(node.request), response)
    return exchange(node, node, node)
