"""An account's calls over any number of imports: stored once, and their spend by day."""

from detectors.report.account.call_files import CallFile, merge_files, read_calls, write_calls
from detectors.report.account.daily_spend import sum_spend
from detectors.report.account.imports import Import, Terms, audit_imports
from detectors.report.account.merging import (
    find_repeated_calls,
    merge_stored,
    read_import,
    sum_stored,
)
from detectors.report.account.spark_windows import SparkWindows
from detectors.report.account.windows import audit_window
