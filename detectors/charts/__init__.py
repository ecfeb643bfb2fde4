"""Charts of report documents: SVG as text, and their data for a table.

Pure functions of bounded output. Colors are attributes of the marks, so a chart needs no style
sheet; a page can set others by class.
"""

from collections.abc import Callable
from typing import Final

from detectors.charts.bars import spend_by_model, spend_by_route
from detectors.charts.chart import Chart, sparkline
from detectors.charts.columns import MOST_SERIES, Columns, Marks, savings_by_audit, stacked_columns
from detectors.charts.days import spend_by_day
from detectors.charts.hours import HoursOfDay, calls_by_hour
from detectors.charts.ranked import findings_ranked
from detectors.charts.waterfall import savings_waterfall
from detectors.contract import Report

# Report pages, PDFs and notebooks all show these charts, in this order.
REPORT_CHARTS: Final[tuple[Callable[[Report], Chart], ...]] = (
    spend_by_day,
    spend_by_model,
    spend_by_route,
)
