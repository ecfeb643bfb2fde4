"""Reports of every shape in a browser: nothing overflows, shifts, or runs as a script.

With `SCREENSHOTS=1` it keeps pictures of the pages and the PDFs in var/screenshots.
"""

from io import BytesIO

import pypdfium2
import pytest
from playwright.sync_api import Browser

from service.core.tokens import sign_report
from service.reports.pdf import print_pdf
from tests.browser.chromium import AT_LOOKS, SCREENSHOTS, TAKES_SCREENSHOTS, WIDTHS, Looks, opened
from tests.browser.measures import axe_violations, overflow, shifts
from tests.browser.site import RICH, Site, account_of
from tests.service.support.scaled_reports import SHAPES
from tests.service.web.pages.scenes import add_run


@AT_LOOKS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_report_of_any_shape_looks_right(
    browser: Browser, site: Site, shape: str, looks: Looks
) -> None:
    report = SHAPES[shape]()
    audit_id = add_run(site.sessions, account_of(site, RICH), report)
    name = f"shape-{shape.replace(' ', '-')}"
    wrong = []
    for width in WIDTHS:
        with opened(browser, site.system.base_url, width=width) as window:
            window.page.goto(f"/r/{sign_report(site.secret_key, audit_id)}")
            window.wait_until_stable()
            wrong += [*shifts(window), *overflow(window), *window.take_complaints()]
            for scheme in (scheme for seen_at, scheme in looks if seen_at == width):
                window.look(width, scheme)
                window.shoot(f"{name}-{width}-{scheme}")
            # The other shapes consist of the same parts as the pages that other tests check.
            if shape == "hostile labels":
                wrong += axe_violations(window)
    assert wrong == []
    assert _shoot_pdf(print_pdf(report.to_json()), name) > 0


def _shoot_pdf(content: bytes, name: str) -> int:
    """A picture of each page; returns how many there are."""
    pages = pypdfium2.PdfDocument(BytesIO(content))
    for number, page in enumerate(pages, start=1):
        picture = page.render(scale=1.3).to_pil()
        if TAKES_SCREENSHOTS:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            picture.save(SCREENSHOTS / f"{name}-pdf-{number:02d}.png")
    return len(pages)
