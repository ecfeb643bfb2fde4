"""/bill and /connections: what these pages will need and show, until they do."""

from flask import render_template

from service.web.auth.visitors import PrivatePages, require_visitor

blueprint = PrivatePages("coming", __name__)


@blueprint.get("/bill")
@require_visitor
def bill() -> str:
    return render_template("pages/coming/bill.html")


@blueprint.get("/connections")
@require_visitor
def connections() -> str:
    return render_template("pages/coming/connections.html")
