"""/upload: the upload form, with or without JavaScript."""

from typing import Any, Final

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug import Response
from werkzeug.exceptions import HTTPException

from detectors.contract import RECORD_V2_FIELDS, REQUIRED_FIELDS
from detectors.errors import DetectorError
from detectors.formats import DIALECTS, JSON_STYLES
from detectors.formats.adapters import adapters
from detectors.formats.json_logs.records import RECORDS
from service.errors import ServiceError
from service.models.audits.idempotency import KeyTakenError
from service.models.base import new_id
from service.models.billing.credits import count_free_credits
from service.payments.links import payment_links
from service.web.auth.csrf import check_token
from service.web.auth.visitors import require_visitor
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.error_responses import describe_error
from service.web.http.headers import keep_private
from service.web.intake.gates import (
    admit_upload,
    bounded_upload,
    capped_upload,
    check_key,
    limit_uploads,
)
from service.web.intake.processor_time import limit_refused_files
from service.web.intake.receiving import MAX_LABEL_LENGTH
from service.web.intake.storing import stored_upload
from service.web.pages.account.billing import granting_for
from service.web.pages.audits.columns import mapping_context

# The form shows these problems itself, above another attempt.
_SHOWN_IN_FORM: Final = frozenset({400, 402, 413, 415, 422})

blueprint = Blueprint("upload", __name__)
blueprint.after_request(keep_private)


@blueprint.get("/upload")
def form() -> str:
    return _page()


@blueprint.post("/upload")
@limit_uploads
@limit_refused_files
@require_visitor
@bounded_upload
@capped_upload
def send() -> Response:
    """Accept a file from a browser without JavaScript, with the checks of the API."""
    try:
        key = check_key(request.args.get("key"))
        with stored_upload(admit_upload(key), check_token) as audit:
            get_session().commit()
    except KeyTakenError as taken:
        return _show_audit(taken.earlier.audit_id)
    except (ServiceError, DetectorError, HTTPException) as error:
        described = describe_error(error)
        if described is None or described.status not in _SHOWN_IN_FORM:
            raise error
        columns = error.columns if isinstance(error, DetectorError) else ()
        page = _page(problem=described.message, status=described.status, columns=columns)
        return make_response(page, described.status, dict(described.headers))
    current_queues().enqueue_audit(audit.id, audit.source)
    return _show_audit(audit.id)


def _page(**context: Any) -> str:
    known, config = find_web_session(), current_config()
    context |= {
        "max_bytes": config.max_upload_bytes,
        "max_label": MAX_LABEL_LENGTH,
        "dialects": DIALECTS,
        "record_example": RECORDS.example,
        "exports": [adapter.title for adapter in adapters().values()],
        "json_styles": JSON_STYLES,
        "fields": [name for name in RECORD_V2_FIELDS if name != "units"],
        "required": REQUIRED_FIELDS,
        **mapping_context(context.pop("columns", ())),
    }
    if known is None:
        return render_template("pages/audits/upload_signed_out.html", **context)
    return render_template(
        "pages/audits/upload.html",
        credits=count_free_credits(get_session(), known.account_id),
        links=payment_links(config, known.account_id),
        granting=granting_for(config, known.email),
        key=new_id(),
        **context,
    )


def _show_audit(audit_id: str) -> Response:
    return redirect(url_for("audit_pages.show", audit_id=audit_id), 303)
