"""/findings.csv and /findings.xlsx: all findings that the filters of the page show."""

from flask import Response, request

from service.reports.csv_table import BYTE_ORDER_MARK
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.finding_tables import answer_findings_csv, answer_findings_xlsx
from service.web.pages.findings.forms import read_filter

blueprint = PrivatePages("finding_downloads", __name__)


@blueprint.get("/findings.csv")
@require_visitor
def csv() -> Response:
    """Download the findings as CSV that begins with a mark for Excel."""
    wanted = read_filter(request.args)
    return answer_findings_csv(current_caller().account_id, wanted, mark=BYTE_ORDER_MARK)


@blueprint.get("/findings.xlsx")
@require_visitor
def xlsx() -> Response:
    """Download the same as a workbook."""
    return answer_findings_xlsx(current_caller().account_id, read_filter(request.args))
