"""Tags of the PDF's content, which screen readers follow: headings, paragraphs, tables, figures.

reportlab writes none. What is drawn between the operators BDC and EMC has a number on its page, and
the structure tree of the document names the numbers in reading order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from reportlab.graphics.shapes import Drawing
from reportlab.pdfbase.pdfdoc import (
    PDFArray,
    PDFDictionary,
    PDFDocument,
    PDFName,
    PDFObject,
    PDFString,
)
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, LongTable, Paragraph, Table

from service.reports.pdf.packed import PackedDocument

# By the name of a paragraph's style; any other is a paragraph.
_ROLES: Final = {
    "title": "H1",
    "heading": "H2",
    "cover heading": "H2",
    "finding": "H3",
    "chart title": "H3",
}
_PAGE_ATTRIBUTES: Final = ("StructParents", "Tabs")
_HEAD_CELL: Final = PDFDictionary({"O": PDFName("Table"), "Scope": PDFName("Column")})


class _Element(PDFObject):  # type: ignore[misc]  # reportlab has no types
    """An element of the structure tree.

    A report has thousands. As reportlab's dictionaries, they would take a third of its time.
    """

    def __init__(self, role: str, parent: str, values: dict[str, PDFObject]) -> None:
        self._role, self._parent, self._values = role, parent, values
        self.reference = ""
        self.kids: list[str | int] = []

    def format(self, document: PDFDocument) -> bytes:
        kids = " ".join(map(str, self.kids))
        head = f"<</S/{self._role}/P {self._parent}/K[{kids}]".encode()
        values = [f"/{key} ".encode() + each.format(document) for key, each in self._values.items()]
        return b"".join((head, *values, b">>"))


class TaggedCanvas(Canvas):  # type: ignore[misc]  # reportlab has no types
    """A canvas whose content has tags."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._doc.__class__ = PackedDocument  # a canvas makes its document itself
        self._root = PDFDictionary({"Type": PDFName("StructTreeRoot")})
        whole = _Element("Document", self._add(self._root), {})
        whole.reference = self._root["K"] = self._add(whole)
        self._open = [whole]
        self._marks: list[list[str]] = [[]]  # of each page, in the order of their numbers

    def begin_element(self, role: str, **values: PDFObject) -> _Element:
        """Begin an element that has others, or marks of its own."""
        parent = self._open[-1]
        element = _Element(role, parent.reference, values)
        element.reference = self._add(element)
        parent.kids.append(element.reference)
        self._open.append(element)
        return element

    def _add(self, thing: PDFObject) -> str:
        """Return a reference to something new in the document."""
        self._doc.Reference(thing)
        return f"{self._doc.objectcounter} 0 R"

    def end_element(self) -> None:
        self._open.pop()

    def begin_mark(self, role: str, **values: PDFObject) -> None:
        """Begin content that is an element."""
        element = self.begin_element(role, Pg=self._doc.thisPageRef(), **values)
        marks = self._marks[-1]
        element.kids.append(len(marks))
        self._code.append(f"/{role} <</MCID {len(marks)}>> BDC")
        marks.append(element.reference)

    def end_mark(self) -> None:
        self._code.append("EMC")
        self.end_element()

    def begin_artifact(self) -> None:
        """Begin content that only looks good, which readers pass over."""
        self._code.append("/Artifact BMC")

    def end_artifact(self) -> None:
        self._code.append("EMC")

    @contextmanager
    def marked(self, role: str, **values: PDFObject) -> Iterator[None]:
        self.begin_mark(role, **values)
        yield
        self.end_mark()

    def showPage(self) -> None:
        super().showPage()
        page = self._doc.Pages.pages[-1]
        page.__NoDefault__ = [*page.__NoDefault__, *_PAGE_ATTRIBUTES]
        page.StructParents, page.Tabs = len(self._marks) - 1, PDFName("S")
        self._marks.append([])

    def save(self) -> None:
        catalog = self._doc.Catalog
        numbers = [
            each
            for page, marks in enumerate(self._marks[:-1])
            for each in (page, self._add(PDFArray(marks)))
        ]
        self._root["ParentTree"] = PDFDictionary({"Nums": PDFArray(numbers)})
        self._root["ParentTreeNextKey"] = len(self._marks) - 1
        catalog.StructTreeRoot = self._root
        catalog.MarkInfo = PDFDictionary({"Marked": "true"})
        self.setViewerPreference("DisplayDocTitle", "true")
        super().save()


class Text(Paragraph):  # type: ignore[misc]  # reportlab has no types
    """A paragraph or a heading, by its style."""

    def drawOn(self, canvas: TaggedCanvas, x: float, y: float, _sW: float = 0) -> None:
        with canvas.marked(_ROLES.get(self.style.name, "P")):
            super().drawOn(canvas, x, y, _sW)


class Figure(Flowable):  # type: ignore[misc]  # reportlab has no types
    """A picture, and what it shows in words."""

    def __init__(self, picture: Drawing, words: str) -> None:
        super().__init__()
        self._picture, self._words = picture, words
        self.width, self.height = picture.width, picture.height

    def draw(self) -> None:
        with self.canv.marked("Figure", Alt=PDFString(self._words)):
            self._picture.drawOn(self.canv, 0, 0)


def tag_layout(table: Table, step: str, *_more: object) -> None:
    """Pass over the ground and the lines of a table that only puts things beside each other."""
    if step in ("startBG", "startLines"):
        table.canv.begin_artifact()
    elif step in ("endBG", "endLines"):
        table.canv.end_artifact()


def tag_table(table: LongTable, step: str, *at: Any) -> None:
    """Tag the rows and cells of a table of text."""
    canvas = table.canv
    if step == "startTable":
        canvas.begin_element("Table")
    elif step == "startRow":
        canvas.begin_element("TR")
    elif step == "startCell":
        is_head = at[0] < table.repeatRows
        canvas.begin_mark("TH", A=_HEAD_CELL) if is_head else canvas.begin_mark("TD")
    elif step == "endCell":
        canvas.end_mark()
    elif step in ("endRow", "endTable"):
        canvas.end_element()
    else:
        tag_layout(table, step)
