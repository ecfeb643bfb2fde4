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
from detectors.wording.headline import title
from detectors.wording.imports import as_import
from service.reports.pdf.fonts import PLAIN, register_fonts
from service.reports.pdf.looks import FAINT, LINE, MARGIN, PAGE, TEXT_WIDTH
from service.reports.pdf.sections import story

_TITLE: Final = "Language-model cost report"


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
    # Built twice: the first pass counts the pages, for "Page 1 of 4" in the footers.
    counted = _Pages()
    _build(report, counted, dated_at, total=0)
    return _build(report, _Pages(), dated_at, total=counted.number)


class _Pages:
    number = 0


def _build(report: Report, pages: _Pages, dated_at: datetime | None, total: int) -> bytes:
    file = BytesIO()
    on_page = _footer(report, pages, total)
    template = _Document(file, subject=_subject(report), dated_at=dated_at, on_page=on_page)
    template.build(story(report))
    return file.getvalue()


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


def _footer(report: Report, pages: _Pages, total: int) -> Callable[[Canvas, Any], None]:
    covered = _period(report)

    def draw(canvas: Canvas, template: Any) -> None:
        pages.number = template.page
        y = MARGIN - 8 * 2
        canvas.saveState()
        canvas.setStrokeColor(LINE)
        canvas.line(MARGIN, y + 11, PAGE[0] - MARGIN, y + 11)
        canvas.setFillColor(FAINT)
        canvas.setFont(PLAIN, 7.5)
        canvas.drawString(MARGIN, y, f"Tallystick · {_TITLE}{f' · {covered}' if covered else ''}")
        of = f" of {total}" if total else ""
        canvas.drawRightString(PAGE[0] - MARGIN, y, f"Page {template.page}{of}")
        canvas.restoreState()

    return draw


def _last_call(report: Report) -> datetime | None:
    last = report.audit.last_call or report.audit.first_call
    return datetime.fromisoformat(last) if last else None


def _period(report: Report) -> str:
    audit = report.audit
    return period(audit.first_call, audit.last_call or audit.first_call) if audit.first_call else ""


def _subject(report: Report) -> str:
    return title(report.audit)
