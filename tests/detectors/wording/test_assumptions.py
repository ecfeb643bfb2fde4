"""Assumptions that differ from the defaults, in the same words at a terminal and in a notebook."""

from collections.abc import Callable
from html import unescape
from io import StringIO

from msgspec.structs import replace
from rich.console import Console

from detectors import Report, Thresholds
from detectors.cli.terminal import print_report
from detectors.html.findings import show_report
from detectors.html.page import print_page
from tests.cases import each_case
from tests.detectors.reports import CHANGED_ASSUMPTIONS, make_report


def print_terminal(report: Report) -> str:
    file = StringIO()
    print_report(report, Console(file=file, width=160, markup=False), 20)
    return file.getvalue()


@each_case("show", [print_terminal, show_report, print_page])
def test_only_assumptions_that_differ_are_shown(show: Callable[[Report], str]) -> None:
    report = make_report()
    changed = replace(report, thresholds=Thresholds(d2_cache_seconds=60))
    for words in CHANGED_ASSUMPTIONS:
        assert words in unescape(show(changed))
        assert words not in unescape(show(report))
