"""How a PDF's objects become a file.

reportlab compresses nothing but pages and fonts, and the tags of a long table would be four fifths
of the file. So all other objects are compressed too, many together, as PDF 1.5 allows.
"""

import zlib
from typing import Final

from reportlab import rl_config
from reportlab.pdfbase import pdfdoc

_START: Final = b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"  # beyond ASCII, so that nobody takes it for text
_TOGETHER: Final = 100  # a reader that looks for one object unpacks these
_FREE, _ALONE, _PACKED = range(3)  # kinds of entries: where an object is

rl_config.useA85 = 0  # streams as text would be a quarter longer


class PackedDocument(pdfdoc.PDFDocument):  # type: ignore[misc]  # reportlab has no types
    """A document that is written with its objects compressed."""

    def format(self) -> bytes:
        file, entries = bytearray(_START), [(_FREE, 0, 0)]
        packed: list[tuple[int, bytes]] = []
        while (number := len(entries)) in self.numberToId:  # writing one can add more
            thing = self.idToObject[self.numberToId[number]]
            content = pdfdoc.format(thing, self, toplevel=1)
            if content.endswith(b"endstream\n"):
                entries.append((_ALONE, len(file), 0))
                file += b"%d 0 obj\n%sendobj\n" % (number, content)
            else:
                entries.append((_PACKED, 0, 0))
                packed.append((number, content))
        for start in range(0, len(packed), _TOGETHER):
            together = packed[start : start + _TOGETHER]
            stream = len(entries)
            index, contents = b"", b""
            for at, (number, content) in enumerate(together):
                entries[number] = (_PACKED, stream, at)
                index += b"%d %d " % (number, len(contents))
                contents += content + b"\n"
            entries.append((_ALONE, len(file), 0))
            head = b"/Type/ObjStm/N %d/First %d" % (len(together), len(index))
            file += _stream(stream, head, index + contents)
        entries.append((_ALONE, len(file), 0))  # of the entries themselves
        table = b"".join(
            kind.to_bytes() + where.to_bytes(4) + at.to_bytes() for kind, where, at in entries
        )
        root, info = (self.Reference(each).format(self) for each in (self.Catalog, self.info))
        head = b"/Type/XRef/W[1 4 1]/Size %d/Root %s/Info %s" % (len(entries), root, info)
        end = b"startxref\n%d\n%%%%EOF\n" % len(file)
        return bytes(file) + _stream(len(entries) - 1, head + b"/ID" + self.ID(), table) + end


def _stream(number: int, head: bytes, content: bytes) -> bytes:
    short = zlib.compress(content)
    head += b"/Filter/FlateDecode/Length %d" % len(short)
    return b"%d 0 obj\n<<%s>>\nstream\n%s\nendstream\nendobj\n" % (number, head, short)
