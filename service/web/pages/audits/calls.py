"""/audits/<audit_id>/calls/<finding_id>.csv, .xlsx: every call behind a finding, for its owner."""

import os
from typing import Final

from flask import Response, make_response, render_template, send_file

from service.core.blobs import BlobNotFoundError
from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audits import find_audit
from service.models.audits.blob_keys import calls_key
from service.models.audits.finding_calls import CallsSource, find_calls_source
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_blobs, current_queues, get_session
from service.web.http.tables import XLSX

_RELOAD_SECONDS: Final = "2"
_PURGED: Final = (
    "We deleted the records of this audit, so its single calls can no longer be downloaded. Upload "
    "the log again to get them."
)
_CHANGED: Final = (
    "Today's prices or settings give other calls for this finding. Recalculate the report, then "
    "download them again."
)
# Of audits of the account.
_NOT_LISTED: Final = (
    "These calls can't be listed: your latest calls no longer have this finding, or there are more "
    "calls than this installation audits in memory."
)
MOST_CALLS: Final = 1_048_575  # rows of a sheet, below its header
_TOO_MANY: Final = f"A spreadsheet has room for {MOST_CALLS:,} rows. Download CSV."
_TYPES: Final = {"csv": "text/csv", "xlsx": XLSX}

blueprint = PrivatePages("finding_calls", __name__, url_prefix="/audits")


@blueprint.get("/<audit_id>/calls/<finding_id>.csv")
@require_visitor
def show(audit_id: str, finding_id: str) -> Response:
    """Download the calls, or wait for a worker that computes them."""
    return _download(audit_id, _find(audit_id, finding_id), "csv")


@blueprint.get("/<audit_id>/calls/<finding_id>.xlsx")
@require_visitor
def workbook(audit_id: str, finding_id: str) -> Response:
    """Download the same as a workbook, if they fit into its sheet."""
    found = _find(audit_id, finding_id)
    if found.calls > MOST_CALLS:
        raise InvalidRequestError(_TOO_MANY)
    return _download(audit_id, found, "xlsx")


def _download(audit_id: str, found: CallsSource, ending: str) -> Response:
    finding_id = found.finding_id
    try:
        file = current_blobs().open(calls_key(found.frame_key, finding_id, ending))
    except BlobNotFoundError:
        current_queues().enqueue_calls(audit_id, f"{finding_id}.{ending}", found.source)
        page = render_template("pages/audits/calls.html", audit_id=audit_id, finding_id=finding_id)
        return make_response(page, 202, {"Refresh": _RELOAD_SECONDS})
    if not file.seek(0, os.SEEK_END):
        file.close()
        raise NotFoundError(_CHANGED if found.window_days is None else _NOT_LISTED)
    file.seek(0)
    name = f"tallystick-calls-{finding_id}.{ending}"
    return send_file(file, mimetype=_TYPES[ending], as_attachment=True, download_name=name)


def _find(audit_id: str, finding_id: str) -> CallsSource:
    session = get_session()
    found = None
    if find_audit(session, current_caller().account_id, audit_id) is not None:
        found = find_calls_source(session.connection(), audit_id, finding_id)
    if found is None:
        raise NotFoundError("Your account has no such finding.")
    if found.is_purged:
        raise NotFoundError(_PURGED)
    return found
