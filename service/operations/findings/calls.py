"""Files with every call behind a finding, which a worker computes again for a download."""

from collections.abc import Callable
from typing import Any, Final

from service.jobs.claiming import Tools
from service.models.audits.blob_keys import calls_key
from service.models.audits.finding_calls import CallsSource, find_calls_source

CSV, XLSX = "csv", "xlsx"
_SHEET: Final = "Calls"

# Takes what is needed of a report while the calls behind its findings can be read.
Collect = Callable[[Any], Any]
# Audits the calls of a source again, and returns what was collected of the report.
AuditAgain = Callable[[Tools, str, CallsSource, Collect], Any]
PrintCsv = Callable[[Any], str]


def write_finding_calls(name: str, audit_again: AuditAgain, print_csv: PrintCsv) -> None:
    """Write the calls behind a finding, named `<audit ID>/<finding ID>.<format>`, as a blob.

    The blob is empty if today's prices, settings or calls give others than the report.
    """
    audit_id, _, file_name = name.partition("/")
    finding_id, _, ending = file_name.partition(".")
    with Tools.opened() as tools:
        with tools.engine.connect() as connection:
            found = find_calls_source(connection, audit_id, finding_id)
        if found is None or found.is_purged:
            return

        def collect(report: Any) -> Any:
            chosen = found.choose(report.findings)
            return None if chosen is None else report.calls(chosen.id)

        calls, content = audit_again(tools, audit_id, found, collect), b""
        if calls is not None and ending != XLSX:
            content = print_csv(calls).encode("utf-8-sig")
        elif calls is not None:
            # Only workbooks need their library, and a worker starts without it.
            from service.reports.workbook import MOST_ROWS, spool_workbook

            if calls.height <= MOST_ROWS:  # they fit into its sheet
                with spool_workbook(_SHEET, calls.columns, calls.iter_rows()) as file:
                    content = file.read()
        tools.blobs.put(calls_key(found.frame_key, finding_id, ending or CSV), content)
