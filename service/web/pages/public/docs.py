"""/docs: the API's reference, printed from the document at /openapi.json."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flask import Blueprint, current_app, render_template
from markupsafe import Markup, escape

from service.models.base import utc_now
from service.web.http.current import current_config
from service.web.openapi.answer_shapes import Shape, list_shapes
from service.web.openapi.api import api
from service.web.openapi.reference import Chapter, Reference

# Chapters about programs first; what browsers and the operator use comes after them.
_FIRST: Final = ("ingest", "uploads", "audits")
_KEPT: Final = "api_reference"

_CODE: Final = re.compile(r"`([^`]+)`")

blueprint = Blueprint("docs", __name__)


@blueprint.app_template_filter()
def with_code(text: str) -> Markup:
    """The document's own words, with what stands between backticks set as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped just now


@blueprint.get("/docs")
def reference() -> str:
    base_url = current_config().base_url
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return render_template("pages/docs.html", **vars(_load()), base_url=base_url, now=now)


@dataclass(frozen=True)
class _Printed:
    """What the page prints of the document."""

    chapters: Sequence[Chapter]
    credentials: Mapping[str, str]
    shapes: Mapping[str, Sequence[Shape]]


def _load() -> _Printed:
    """Read once: the routes of a running process do not change."""
    if _KEPT not in current_app.extensions:
        read = Reference(api.spec.to_dict())
        order = {name: place for place, name in enumerate(_FIRST)}
        chapters = sorted(read.chapters(), key=lambda one: order.get(one.name, len(order)))
        current_app.extensions[_KEPT] = _Printed(chapters, read.credentials, list_shapes(chapters))
    kept: _Printed = current_app.extensions[_KEPT]
    return kept
