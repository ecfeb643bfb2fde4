"""The PDF's pages: footer, outline, and the sections in order."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Final

from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageTemplate

from detectors.contract import Report
from detectors.wording.figures import period
from detectors.wording.headline import short_title
from detectors.wording.imports import as_import
from service.reports.pdf.fonts import PLAIN, register_fonts
from service.reports.pdf.looks import FAINT, LINE, MARGIN, PAGE, TEXT_WIDTH
from service.reports.pdf.sections import story

_TITLE: Final = "Language-model cost report"
_FOOTER_Y: Final = MARGIN - 8 * 2


def print_pdf(
    document: bytes, published_at: datetime | None = None, *, is_batch: bool = False
) -> bytes:
    """Print the report as a PDF of at most 20 pages, dated to when it was published.

    The same document and time give the same bytes. Without a time, the last call dates the PDF.
    """
    register_fonts()
    report = Report.from_json(document)
    report = as_import(report) if is_batch else report
    dated_at = published_at or _last_call(report)
    file = BytesIO()
    subject, footer = short_title(report.audit), _footer(report)
    template = _Document(file, subject=subject, dated_at=dated_at, on_page=footer)
    template.build(story(report), canvasmaker=_NumberedCanvas)
    return file.getvalue()


class _NumberedCanvas(Canvas):  # type: ignore[misc]  # reportlab has no types
    """Pages that end with "Page 1 of 4", although their number is known only at the end.

    Each page refers to a form, which is drawn when the document is saved.
    """

    def draw_number(self) -> None:
        """Draw the number of this page; call it once a page."""
        self.doForm(f"page-{self.getPageNumber()}")

    def save(self) -> None:
        total = self.getPageNumber() - 1  # the last page has been closed
        for number in range(1, total + 1):
            self.beginForm(f"page-{number}")
            _set_small_print(self)
            text = f"Page {number} of {total}"
            self.drawRightString(PAGE[0] - MARGIN, _FOOTER_Y, text)
            self.endForm()
        super().save()


def _set_small_print(canvas: Canvas) -> None:
    canvas.setFillColor(FAINT)
    canvas.setFont(PLAIN, 7.5)


class _Document(BaseDocTemplate):  # type: ignore[misc]  # reportlab has no types
    def __init__(
        self,
        file: BytesIO,
        *,
        subject: str,
        dated_at: datetime | None,
        on_page: Callable[[Any, Any], None],
    ) -> None:
        self._dated_at = dated_at
        super().__init__(
            file,
            pagesize=PAGE,
            title=_TITLE,
            author="Tallystick",
            subject=subject,
            creator="Tallystick",
            lang="en-US",
            invariant=1,
            initialFontName=PLAIN,
            pageCompression=1,
        )
        height = PAGE[1] - 2 * MARGIN
        frame = Frame(MARGIN, MARGIN, TEXT_WIDTH, height, 0, 0, 0, 0, id="page")
        self.addPageTemplates(PageTemplate("page", [frame], onPage=on_page))

    def beforeDocument(self) -> None:
        """Set CreationDate and ModDate, which reportlab takes from the clock or a constant."""
        if self._dated_at is not None:
            date = self._dated_at.astimezone(UTC).timetuple()[:6]
            self.canv._doc._timeStamp = SimpleNamespace(YMDhms=date, dhh=0, dmm=0)

    def afterFlowable(self, flowable: Flowable) -> None:
        """Add headings to the outline."""
        outline = getattr(flowable, "outline", None)
        if outline:
            key, text, level = outline
            self.canv.bookmarkPage(key)
            self.canv.addOutlineEntry(text, key, level, closed=False)


def _footer(report: Report) -> Callable[[Any, Any], None]:
    covered = _period(report)

    def draw(canvas: _NumberedCanvas, _template: Any) -> None:
        canvas.saveState()
        canvas.setStrokeColor(LINE)
        canvas.line(MARGIN, _FOOTER_Y + 11, PAGE[0] - MARGIN, _FOOTER_Y + 11)
        _set_small_print(canvas)
        text = f"Tallystick · {_TITLE}{f' · {covered}' if covered else ''}"
        canvas.drawString(MARGIN, _FOOTER_Y, text)
        canvas.restoreState()
        canvas.draw_number()

    return draw


def _last_call(report: Report) -> datetime | None:
    last = report.audit.last_call or report.audit.first_call
    return datetime.fromisoformat(last) if last else None


def _period(report: Report) -> str:
    audit = report.audit
    if not audit.first_call:
        return ""
    return f"{period(audit.first_call, audit.last_call or audit.first_call)} (UTC)"
