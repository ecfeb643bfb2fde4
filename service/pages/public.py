"""The landing page."""

from flask import Blueprint, render_template

blueprint = Blueprint("public", __name__)


@blueprint.get("/")
def landing() -> str:
    return render_template("pages/landing.html")
