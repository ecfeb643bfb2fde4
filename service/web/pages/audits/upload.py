"""/upload: the upload forms, with or without JavaScript: of logs, and of providers' reports."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from flask import g, make_response, redirect, render_template, request, url_for
from werkzeug import Response
from werkzeug.exceptions import HTTPException

from detectors.contract import FIELD_NAME, RECORD_V2_FIELDS, REQUIRED_FIELDS
from detectors.errors import DetectorError
from detectors.formats import (
    BESIDE_UNCACHED,
    BY_MODEL,
    DIALECTS,
    SYNONYMS,
    TARGETS,
    TEXT_COLUMNS,
    UNNEEDED_COLUMNS,
    ColumnMapping,
    ProposedColumn,
    plain,
    propose,
)
from detectors.formats.adapters import adapters, all_sums, export_signs
from detectors.formats.json_logs.records import RECORDS
from detectors.formats.json_logs.shapes import outline
from service.connections.exports import list_exports, read_export
from service.errors import ServiceError
from service.models.audits.idempotency import KeyTakenError
from service.models.base import new_id
from service.models.billing.credits import count_free_credits
from service.models.connections.connections import MAX_CONNECTIONS, ConnectionLimitError
from service.operations.connections.by_hand import store_reading
from service.payments.links import payment_links
from service.web.auth.callers import current_caller
from service.web.auth.csrf import check_token
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import (
    current_config,
    current_queues,
    get_session,
    sleep_without_slot,
)
from service.web.http.error_responses import describe_error
from service.web.intake.gates import (
    admit_upload,
    bounded_upload,
    capped_upload,
    check_key,
    limit_uploads,
)
from service.web.intake.processor_time import limit_refused_files, measure_file
from service.web.intake.receiving import MAX_LABEL_LENGTH, received_file
from service.web.intake.storing import stored_upload
from service.web.intake.upload_turns import upload_turns
from service.web.pages.account.billing import granting_for

REPORT: Final = "report"  # what a provider's file is, in the address
# The form shows these problems itself, above another attempt.
_SHOWN_IN_FORM: Final = frozenset({400, 402, 413, 415, 422})

blueprint = PrivatePages("upload", __name__)


@blueprint.get("/upload")
def form() -> str:
    return _show_report_form() if _is_report() and find_web_session() else _page()


@blueprint.post("/upload")
@limit_uploads
@limit_refused_files
@require_visitor
@bounded_upload
@capped_upload
def send() -> Response:
    """Accept a file from a browser, with the checks of the API.

    Without scripts only; upload.js posts to `api/uploads.create`.
    """
    if _is_report():
        return _send_report()
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


def _is_report() -> bool:
    return request.args.get("kind") == REPORT


def _send_report() -> Response:
    """Store what a provider reports, in place of what was stored of its days; it has no calls."""
    session, account_id = get_session(), current_caller().account_id
    spent, max_bytes = measure_file(), current_config().max_upload_bytes
    try:
        with (
            received_file(check_token, spent.check) as upload,
            upload_turns.turn(account_id, sleep=sleep_without_slot),
        ):
            reading = read_export(upload.file, max_bytes=max_bytes, advance=spent.check)
        held = store_reading(session, account_id, reading)
    except ConnectionLimitError:
        most = f"You have {MAX_CONNECTIONS} connections. Remove one to add another."
        return make_response(_show_report_form(most), 422)
    except (ServiceError, DetectorError, HTTPException) as error:
        described = describe_error(error)
        if described is None or described.status not in _SHOWN_IN_FORM:
            raise error
        shown = _show_report_form(described.message)
        return make_response(shown, described.status, dict(described.headers))
    session.commit()
    current_queues().enqueue_pull(held.id)
    return redirect(url_for("connections.show", connection_id=held.id), 303)


def _show_report_form(problem: str = "") -> str:
    return render_template(
        "pages/audits/upload_report.html",
        problem=problem,
        kind=REPORT,
        kinds=sorted({export.what for export in list_exports()}, key=str.lower),
        max_bytes=current_config().max_upload_bytes,
    )


def _page(**context: Any) -> str:
    known, config = find_web_session(), current_config()
    context |= {
        "max_bytes": config.max_upload_bytes,
        "max_label": MAX_LABEL_LENGTH,
        "dialects": DIALECTS,
        "record_example": RECORDS.example,
        "exports": [adapter.title for adapter in adapters().values()],
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


# A file with more columns is mapped by a program.
MAX_SHOWN: Final = 200
PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai": "OpenAI",
        "anthropic": "Anthropic",
        "google": "Google",
        "azure": "Azure",
        "aws": "AWS Bedrock",
        "openrouter": "OpenRouter",
        "mistral": "Mistral",
        "deepseek": "DeepSeek",
        "x-ai": "xAI",
        "cohere": "Cohere",
        "groq": "Groq",
        "together": "Together",
        "fireworks": "Fireworks",
    }
)
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ts": "Time",
        "provider": "Model provider",
        "model": "Model",
        "prompt_tokens": "Input tokens, cached included",
        "uncached_prompt_tokens": "Input tokens, cached not included",
        "completion_tokens": "Output tokens",
        "cached_tokens": "Cached input tokens",
        "cache_write_tokens": "Cache write tokens",
        "latency_ms": "Latency in milliseconds",
        "request_id": "Request ID",
        "tag": "Tag: service, team or feature",
        "declared_max_tokens": "max_tokens limit",
    }
)


class Target(NamedTuple):
    """A field that a column can become, and the names that other tools give to it."""

    field: str
    words: str
    synonyms: str


class ShownColumn(NamedTuple):
    """A row of the table; `field` is chosen, None if nothing is, and empty to drop it."""

    position: int
    name: str
    field: str | None
    is_text: bool


def mapping_context(columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the form needs to map columns, with these columns of a refused file."""
    sent: ColumnMapping | None = g.get("upload_mapping")
    return {
        "columns": [
            ShownColumn(
                number,
                column.name
                if FIELD_NAME.fullmatch(column.name) or plain(column.name) in _KNOWN
                else f"Column {number}",
                _chosen(column.name, number, sent) if sent else _propose(column),
                column.is_text,
            )
            for number, column in enumerate(propose(columns[:MAX_SHOWN]), 1)
        ],
        "provider": sent.provider if sent else "",
        "providers": PROVIDERS,
        "by_model": BY_MODEL,
        "targets": _targets(),
        "export_signs": export_signs(),
        "totals": [
            {
                "names": sorted(names),
                "refusal": sums.refusal(),
                "report": sums.what if sums.is_report else "",
            }
            for sums in all_sums()
            for names in sums.signs
        ],
        "allowlists": _allowlists(),
        "text_columns": sorted(TEXT_COLUMNS),
        "unneeded_columns": sorted(UNNEEDED_COLUMNS),
        "beside_uncached": sorted(BESIDE_UNCACHED),
    }


@cache
def _allowlists() -> dict[str, str]:
    """Return what objects of each dialect may have, flat and beside their request."""
    return {
        f"{dialect.name}-{name}": outline(layout.shape)
        for dialect in (*DIALECTS, RECORDS)
        for name, layout in (("flat", dialect.flat), ("wrapped", dialect.wrapped))
    }


@cache
def _targets() -> list[Target]:
    order = [name for name in _WORDS if name in TARGETS]
    return [
        Target(name, _WORDS.get(name, name), " ".join(SYNONYMS.get(name, ())))
        for name in (*order, *(name for name in TARGETS if name not in _WORDS))
    ]


def _propose(column: ProposedColumn) -> str | None:
    """Return the field, "" for a column to drop, or nothing where a person has to choose."""
    return column.field or ("" if plain(column.name) in UNNEEDED_COLUMNS else None)


def _chosen(name: str, number: int, sent: ColumnMapping) -> str | None:
    """Return the field that was sent for the column."""
    for own in (f"#{number}", name):
        if own in sent.columns:
            return sent.columns[own]
        if own in sent.dropped:
            return ""
    return name if name in TARGETS else None


_KNOWN: Final = frozenset(
    {*REQUIRED_FIELDS, *TARGETS, *TEXT_COLUMNS, *UNNEEDED_COLUMNS}.union(
        *map(set, SYNONYMS.values())
    )
)
