"""The benchmark of growth on logs of a few calls: its times, its section of the page, its chart."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest

from benchmarks.growth.__main__ import BEGIN, END, PAGE, write_section
from benchmarks.growth.chart import draw
from benchmarks.growth.programs import AUDIT, LOOP, PANDAS, READ, Row, measure

ROWS = (
    Row(10_000, {AUDIT: 50.0, READ: 12.5, LOOP: 5.0, PANDAS: 130.0}),
    Row(1_000_000, {AUDIT: 2.0, READ: 0.4, LOOP: 3.0}, {PANDAS: "over 300 s"}),
    Row(10_000_000, {AUDIT: 1.6, READ: 0.4, LOOP: 3.0}),
)


def _table(page: str) -> list[list[str]]:
    section = page.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_section_is_replaced_as_often_as_it_is_written() -> None:
    page = PAGE.read_text()
    once = write_section(page, ROWS[:1], "machine: 2 cores", "")
    twice = write_section(once, ROWS, "machine: 2 cores", "Busy. ")
    assert twice.startswith(page.partition(BEGIN)[0])
    assert twice.endswith(page.partition(END)[2])
    assert "Busy. Machine: 2 cores. " in twice
    assert _table(twice)[2:] == [
        ["10,000", "50.0 (4.0 ×)", "12.5", "5.00 (0.4 ×)", "130.0 (10.4 ×)"],
        ["1,000,000", "2.00 (5.0 ×)", "0.40", "3.00 (7.5 ×)", "over 300 s"],
        ["10,000,000", "1.60 (4.0 ×)", "0.40", "3.00 (7.5 ×)", "not run"],
    ]


def test_a_page_without_the_section_is_not_written() -> None:
    with pytest.raises(ValueError, match="has no section"):
        write_section("# Performance\n", ROWS, "machine", "")


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]])
def test_the_chart_has_a_line_and_a_label_for_each_program(rows: Sequence[Row]) -> None:
    chart = ET.fromstring(draw(rows))
    space = "{http://www.w3.org/2000/svg}"
    lines = [one for one in chart.iter(f"{space}path") if one.get("class", "").startswith("line")]
    labels = [one.text for one in chart.iter(f"{space}text")]
    points = sum(len(row.microseconds) for row in rows)
    assert len(lines) == 4
    assert len([*chart.iter(f"{space}circle")]) == points
    assert set(labels) >= {AUDIT, READ, LOOP, PANDAS}


def test_a_program_over_its_limit_is_not_run_on_larger_logs() -> None:
    first, second = measure([20, 10], runs=1, limit_seconds=0.001)
    assert (first.calls, second.calls) == (10, 20)
    assert first.stopped == dict.fromkeys((AUDIT, READ, LOOP, PANDAS), "over 0.001 s")
    assert (first.microseconds, second.microseconds, second.stopped) == ({}, {}, {})
