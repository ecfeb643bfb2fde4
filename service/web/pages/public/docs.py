"""/docs: the API reference, rendered from the document at /openapi.json."""

import re
from typing import Final

from flask import Blueprint, current_app, render_template
from markupsafe import Markup, escape

from service.models.base import utc_now
from service.web.http.current import current_config
from service.web.openapi.api import api
from service.web.openapi.reference import Reference, list_shapes

# Chapters for programs come first, those for browsers and the operator after them.
_FIRST: Final = ("ingest", "uploads", "audits", "report_links")
_EXTENSION: Final = "api_reference"

_CODE: Final = re.compile(r"`([^`]+)`")

blueprint = Blueprint("docs", __name__)


@blueprint.app_template_filter()
def with_code(text: str) -> Markup:
    """Escape a text of the document and mark text between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped in the same expression


@blueprint.get("/docs")
def reference() -> str:
    base_url = current_config().base_url
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    # Rendered once, for every visitor; the routes of a running process don't change.
    if _EXTENSION not in current_app.extensions:
        document = Reference(api.spec.to_dict())
        order = {name: index for index, name in enumerate(_FIRST)}
        chapters = sorted(
            document.chapters(), key=lambda chapter: order.get(chapter.name, len(order))
        )
        printed = render_template(
            "pages/public/reference.html", chapters=chapters, shapes=list_shapes(chapters)
        )
        current_app.extensions[_EXTENSION] = {
            "credentials": document.credentials,
            "reference": Markup(printed),  # noqa: S704 - our markup
        }
    shared = current_app.extensions[_EXTENSION]
    return render_template("pages/public/docs.html", **shared, base_url=base_url, now=now)
