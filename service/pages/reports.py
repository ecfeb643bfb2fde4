"""/r/<token>: the report behind a signed link. Whoever holds the link may read the report."""

from typing import Final

from flask import Response

from service.api.blueprint import Blueprint
from service.db import get_session
from service.errors import NotFoundError
from service.extensions import current_config
from service.models.audits import Audit, ReportRow
from service.reports.html import print_report, print_waiting
from service.tokens import verify_report

_ERRORS: Final = {
    404: "The link is altered or expired.",
    503: "The service is busy or restarting.",
}

blueprint = Blueprint("reports", __name__, description="Signed report links.")


@blueprint.route("/r/<token>", methods=["GET"])
@blueprint.documented(media_type="text/html", errors=_ERRORS)
@blueprint.response(
    200, {"type": "string"}, content_type="text/html", description="The report as a page."
)
def report(token: str) -> Response:
    """Show the report that a signed link leads to."""
    config, session = current_config(), get_session()
    audit_id = verify_report(config.secret_keys, token, config.report_link_days)
    audit = session.get(Audit, audit_id)
    if audit is None:
        raise NotFoundError
    row = session.get(ReportRow, audit_id)
    page = print_waiting(audit) if row is None else print_report(audit, row.document)
    return Response(page, mimetype="text/html")
