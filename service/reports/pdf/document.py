"""The PDF's pages: footer, outline, and the sections in order."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Final

from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageTemplate

from detectors.contract import Report
from detectors.wording.figures import period
from detectors.wording.headline import short_title
from detectors.wording.imports import as_import
from service.reports.pdf.fonts import PLAIN, fitted, register_fonts
from service.reports.pdf.looks import FAINT, LINE, MARGIN, PAGE, TEXT_WIDTH
from service.reports.pdf.sections import story
from service.reports.pdf.tags import TaggedCanvas

_TITLE: Final = "Language-model cost report"
_FOOTER_Y: Final = MARGIN - 8 * 2
_SMALL: Final = 7.5
_NUMBER_WIDTH: Final = 60


def print_pdf(
    document: bytes,
    published_at: datetime | None = None,
    *,
    is_batch: bool = False,
    name: str = "",
    rules_url: str = "",
) -> bytes:
    """Print the report as a PDF of at most 20 pages, dated to when it was published.

    `name` is that of its customer, and `rules_url` a page about how the detectors work. The same
    values give the same bytes. Without a time, the last call dates the PDF.
    """
    register_fonts()
    report = Report.from_json(document)
    report = as_import(report) if is_batch else report
    dated_at, covered = published_at, ""
    if first := report.audit.first_call:
        last = report.audit.last_call or first
        dated_at = dated_at or datetime.fromisoformat(last)
        covered = f"{period(first, last)} (UTC)"
    file = BytesIO()
    title = f"{_TITLE} for {name}" if name else _TITLE
    line = " · ".join(filter(None, (f"Tallystick · {title}", covered)))
    shown = fitted(line, TEXT_WIDTH - _NUMBER_WIDTH, _SMALL)

    def draw_footer(canvas: _NumberedCanvas, _template: Any) -> None:
        canvas.begin_artifact()
        canvas.saveState()
        canvas.setStrokeColor(LINE)
        canvas.line(MARGIN, _FOOTER_Y + 11, PAGE[0] - MARGIN, _FOOTER_Y + 11)
        _set_small_print(canvas)
        canvas.drawString(MARGIN, _FOOTER_Y, shown)
        canvas.restoreState()
        canvas.draw_number()
        canvas.end_artifact()

    subject = ", ".join(filter(None, (short_title(report.audit), covered)))
    template = _Document(file, title=title, subject=subject, dated_at=dated_at, on_page=draw_footer)
    parts = story(report, name=name, period=covered, rules_url=rules_url)
    template.build(parts, canvasmaker=_NumberedCanvas)
    return file.getvalue()


class _NumberedCanvas(TaggedCanvas):
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


def _set_small_print(canvas: TaggedCanvas) -> None:
    canvas.setFillColor(FAINT)
    canvas.setFont(PLAIN, _SMALL)


class _Document(BaseDocTemplate):  # type: ignore[misc]  # reportlab has no types
    def __init__(
        self,
        file: BytesIO,
        *,
        title: str,
        subject: str,
        dated_at: datetime | None,
        on_page: Callable[[Any, Any], None],
    ) -> None:
        self._dated_at = dated_at
        super().__init__(
            file,
            pagesize=PAGE,
            title=title,
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
