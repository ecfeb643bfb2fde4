"""The landing page, and the form that asks for a sign-in link."""

from flask import Blueprint, render_template, request

from service.local_paths import find_local_path
from service.sessions import find_web_session

blueprint = Blueprint("public", __name__)


@blueprint.get("/")
def landing() -> str:
    return render_template("pages/landing.html")


@blueprint.get("/sign-in")
def sign_in() -> str:
    onward = find_local_path(request.args.get("next"))
    return render_template("pages/sign_in.html", onward=onward, known=find_web_session())
