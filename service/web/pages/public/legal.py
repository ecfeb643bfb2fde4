"""/legal: privacy, data processing and terms, filled in from the settings."""

from flask import Blueprint, render_template

from service.web.http.current import current_config

blueprint = Blueprint("legal", __name__, url_prefix="/legal")


@blueprint.get("/dpa")
def dpa() -> str:
    return _show("dpa")


@blueprint.get("/privacy")
def privacy() -> str:
    return _show("privacy")


@blueprint.get("/terms")
def terms() -> str:
    return _show("terms")


def _show(name: str) -> str:
    config = current_config()
    processors = [name.strip() for name in config.sub_processors.split(";") if name.strip()]
    return render_template(f"pages/public/legal/{name}.html", config=config, processors=processors)
