"""/legal: what happens to data and what holds between the parties, filled in from the settings."""

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
    processors = [one.strip() for one in config.sub_processors.split(";") if one.strip()]
    return render_template(f"legal/{name}.html", config=config, processors=processors)
