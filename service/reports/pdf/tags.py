"""Tags of the PDF's content, which screen readers follow: headings, paragraphs, tables, figures.

reportlab writes none. What is drawn between the operators BDC and EMC has a number on its page, and
the structure tree of the document names the numbers in reading order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from reportlab.graphics.shapes import Drawing
from reportlab.pdfbase.pdfdoc import PDFArray, PDFDictionary, PDFName, PDFString
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, LongTable, Paragraph, Table

# By the name of a paragraph's style; any other is a paragraph.
_ROLES: Final = {
    "title": "H1",
    "heading": "H2",
    "cover heading": "H2",
    "finding": "H3",
    "chart title": "H3",
}
_PAGE_ATTRIBUTES: Final = ("StructParents", "Tabs")


class TaggedCanvas(Canvas):  # type: ignore[misc]  # reportlab has no types
    """A canvas whose content has tags."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._elements: list[tuple[PDFDictionary, list[Any]]] = []
        self._open: list[tuple[PDFDictionary, list[Any]]] = []
        self._marks: list[list[Any]] = [[]]  # of each page, in the order of their numbers
        self._root = PDFDictionary({"Type": PDFName("StructTreeRoot")})
        self.begin_element("Document")

    def begin_element(self, role: str, **values: Any) -> PDFDictionary:
        """Begin an element that has others, or marks of its own."""
        parent, kids = self._open[-1] if self._open else (self._root, [])
        element = PDFDictionary({"Type": PDFName("StructElem"), "S": PDFName(role), **values})
        reference = self._doc.Reference(element, f"Element{len(self._elements)}")
        if self._elements:
            element["P"] = self._doc.Reference(parent)
        kids.append(reference)
        self._elements.append((element, []))
        self._open.append(self._elements[-1])
        return element

    def end_element(self) -> None:
        self._open.pop()

    def begin_mark(self, role: str, **values: Any) -> None:
        """Begin content that is an element."""
        element = self.begin_element(role, Pg=self._doc.thisPageRef(), **values)
        marks = self._marks[-1]
        self._open[-1][1].append(len(marks))
        self._code.append(f"/{role} <</MCID {len(marks)}>> BDC")
        marks.append(self._doc.Reference(element))

    def end_mark(self) -> None:
        self._code.append("EMC")
        self.end_element()

    def begin_artifact(self) -> None:
        """Begin content that only looks good, which readers pass over."""
        self._code.append("/Artifact BMC")

    def end_artifact(self) -> None:
        self._code.append("EMC")

    @contextmanager
    def marked(self, role: str, **values: Any) -> Iterator[None]:
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
        catalog, doc = self._doc.Catalog, self._doc
        for element, kids in self._elements:
            element["K"] = PDFArray(kids)
        numbers = [
            each
            for page, marks in enumerate(self._marks[:-1])
            for each in (page, doc.Reference(PDFArray(marks), f"Marks{page}"))
        ]
        self._root["K"] = doc.Reference(self._elements[0][0])
        self._elements[0][0]["P"] = doc.Reference(self._root, "StructTreeRoot")
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
        scope = PDFDictionary({"O": PDFName("Table"), "Scope": PDFName("Column")})
        is_head = at[0] < table.repeatRows
        canvas.begin_mark("TH", A=scope) if is_head else canvas.begin_mark("TD")
    elif step == "endCell":
        canvas.end_mark()
    elif step in ("endRow", "endTable"):
        canvas.end_element()
    else:
        tag_layout(table, step)
