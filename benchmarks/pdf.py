"""The report benchmark: the time to render it, its size, and the memory of the web process.

Limits: a PDF of 400 findings in 200 ms, 20 pages and 200 KB; a page in 25 ms. Both are rendered
cold, as for the first request, before any part is cached; the median of several counts.
"""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from pypdf import PdfReader

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.running import print_machine
from detectors.contract import Report
from service.app import create_app
from service.config import Config
from service.reports.documents import Document
from service.reports.html import ReportLinks, Terms, print_report
from tests.service.support.scaled_reports import make_scaled_report

SHAPES: dict[str, Report] = {
    "1 finding": make_scaled_report(findings=1),
    "40 findings": make_scaled_report(findings=40),
    "400 findings": make_scaled_report(findings=400),
    "400 findings, 400 days, 200 models": make_scaled_report(
        findings=400, days=400, records=10_000_000, models=200
    ),
    "4,000 findings": make_scaled_report(findings=4_000),
}
ROUNDS = 5
PAGE_MS, PDF_MS, PAGES, PDF_KB = 25.0, 200.0, 20, 200  # the limits
_keys = itertools.count()  # a new key for every report, so that none is cached
ROOT = Path(__file__).parents[1]
_WEB = """
import sys, psutil
import service.app
process, document = psutil.Process(), sys.stdin.buffer.read()
before = process.memory_info().rss
from service.reports.pdf import print_pdf
print_pdf(document)
print(before // 2**20, "and", process.memory_info().rss // 2**20)
"""


def main() -> None:
    app = create_app(
        Config(
            secret_key="a secret key for benchmarks, 32 long",
            database_url="postgresql://nobody@/none?host=/nowhere",
            redis_url="unix:///nowhere/valkey.sock",
            storage_url="file:///proc/nowhere",
        )
    )
    with app.test_request_context():
        pages = {name: _measure_page(report.to_json()) for name, report in SHAPES.items()}
    print_machine()
    print(f"{'report':36}{'page ms':>9}{'KB':>6}{'PDF ms':>9}{'KB':>6}{'pages':>7}{'met':>5}")
    for name, report in SHAPES.items():
        page_ms, page_kb = pages[name]
        pdf_ms, pdf_kb, count = _measure_pdf(report.to_json())
        is_met = page_ms <= PAGE_MS and pdf_ms <= PDF_MS and count <= PAGES and pdf_kb <= PDF_KB
        sizes = f"{page_ms:>9.1f}{page_kb:>6.0f}{pdf_ms:>9.0f}{pdf_kb:>6.0f}{count:>7}"
        print(f"{name:36}{sizes}{'yes' if is_met else 'no':>5}")
    document = SHAPES["400 findings, 400 days, 200 models"].to_json()
    # A process that loads what the web process loads, and nothing of this benchmark.
    memory = subprocess.run(
        [sys.executable, "-c", _WEB], input=document, capture_output=True, check=True, cwd=ROOT
    )
    print(f"resident memory of the web: {memory.stdout.decode().strip()} MB (before, after a PDF)")


def _measure_page(document: bytes) -> tuple[float, float]:
    """Render with a new key each time, as for the first reader of a report."""
    terms = Terms(link_days=30, retention_days=7)
    links = ReportLinks(pdf="/", json="/", findings_csv="/", terms=terms)
    page, milliseconds = _median(
        lambda: print_report(Document(next(_keys), lambda: document), links).encode()
    )
    return milliseconds, len(page) / 1000


def _measure_pdf(document: bytes) -> tuple[float, float, int]:
    from service.reports.pdf import print_pdf

    content, milliseconds = _median(lambda: print_pdf(document))
    return milliseconds, len(content) / 1000, len(PdfReader(BytesIO(content)).pages)


def _median(act: Callable[[], bytes]) -> tuple[bytes, float]:
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        result = act()
        times.append((time.perf_counter() - started) * 1000)
    return result, sorted(times)[ROUNDS // 2]


if __name__ == "__main__":
    main()
