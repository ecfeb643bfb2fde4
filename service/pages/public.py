"""The landing page, and the form that asks for a sign-in link."""

from flask import Blueprint, render_template, request

from service.extensions import current_config
from service.local_paths import find_local_path
from service.reports.html import Surroundings, print_finding, print_report
from service.reports.sample import get_sample_report
from service.sessions import find_web_session

blueprint = Blueprint("public", __name__)


@blueprint.get("/")
def landing() -> str:
    return render_template("pages/landing.html")


@blueprint.get("/sample")
def sample() -> str:
    """The report of made-up usage, as a customer's own would look."""
    document = get_sample_report()
    finding_id = request.args.get("finding")
    if finding_id is not None:
        return print_finding(document, finding_id)
    config = current_config()
    around = Surroundings(
        link_days=config.report_link_days,
        retention_days=config.raw_retention_days,
        is_sample=True,
    )
    return print_report(document, around)


@blueprint.get("/sign-in")
def sign_in() -> str:
    onward = find_local_path(request.args.get("next"))
    return render_template("pages/sign_in.html", onward=onward, known=find_web_session())
