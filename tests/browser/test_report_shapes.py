"""Reports of every shape in a browser: nothing overflows, shifts, or runs as a script.

With `SCREENSHOTS=1` it keeps pictures of the pages and the PDFs in var/screenshots.
"""

from io import BytesIO

import pytest

from service.core.tokens import sign_report
from service.reports.pdf import print_pdf
from tests.browser.chromium import LOOKS, SCREENSHOTS, TAKES_SCREENSHOTS, Look
from tests.browser.measures import axe_violations, overflow, shifts
from tests.browser.pages import Example
from tests.browser.site import RICH, Site, account_of
from tests.browser.windows import Windows
from tests.service.support.documents import make_report_with_gaps
from tests.service.support.scaled_reports import SHAPES
from tests.service.web.pages.scenes import add_run

REPORTS = {**SHAPES, "gaps of prices": make_report_with_gaps}


def test_a_report_of_hostile_labels_looks_right(windows: Windows, site: Site) -> None:
    assert _look_at(windows, site, "hostile labels", (360, "light")) == []


@pytest.mark.stress
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look[0]}-{look[1]}")
@pytest.mark.parametrize("shape", REPORTS)
def test_a_report_of_any_shape_looks_right_in_any_window(
    windows: Windows, site: Site, shape: str, look: Look
) -> None:
    assert _look_at(windows, site, shape, look) == []


@pytest.mark.stress
@pytest.mark.parametrize("shape", REPORTS)
def test_a_pdf_of_any_shape_can_be_shown(shape: str) -> None:
    assert _shoot_pdf(print_pdf(REPORTS[shape]().to_json()), _name(shape)) > 0


def _look_at(windows: Windows, site: Site, shape: str, look: Look) -> list[str]:
    audit_id = add_run(site.sessions, account_of(site, RICH), REPORTS[shape]())
    path = f"/r/{sign_report(site.secret_key, audit_id)}"
    window = windows.show(Example(_name(shape), path), look)
    wrong = [*shifts(window), *overflow(window), *window.take_complaints()]
    window.shoot(f"{_name(shape)}-{look[0]}-{look[1]}")
    # The other shapes consist of the same parts as the pages that other tests check.
    return wrong + axe_violations(window) if shape == "hostile labels" else wrong


def _name(shape: str) -> str:
    return f"shape-{shape.replace(' ', '-')}"


def _shoot_pdf(content: bytes, name: str) -> int:
    """A picture of each page; returns how many there are."""
    import pypdfium2

    pages = pypdfium2.PdfDocument(BytesIO(content))
    for number, page in enumerate(pages, start=1):
        picture = page.render(scale=1.3).to_pil()
        if TAKES_SCREENSHOTS:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            picture.save(SCREENSHOTS / f"{name}-pdf-{number:02d}.png")
    return len(pages)
