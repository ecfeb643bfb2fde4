"""Charts of a report document, or of many: SVG as text, and the numbers behind it for a table.

Pure functions of what they draw, bounded whatever its size. The colours stand in the marks as
attributes, so that a chart is whole by itself; a page's style sheet may set others by the classes.
"""

from detectors.charts.bars import spend_by_model, spend_by_route
from detectors.charts.chart import Chart
from detectors.charts.days import spend_and_savings, spend_by_day
from detectors.charts.ranked import findings_ranked
from detectors.charts.waterfall import savings_waterfall

__all__ = [
    "Chart",
    "findings_ranked",
    "savings_waterfall",
    "spend_and_savings",
    "spend_by_day",
    "spend_by_model",
    "spend_by_route",
]
