"""/glossary: what the words mean that pages, reports and emails use."""

from flask import Blueprint, render_template

from detectors.wording.glossary import MONEY, PRODUCT
from detectors.wording.names import introduce_detectors

blueprint = Blueprint("glossary", __name__)


@blueprint.get("/glossary")
def glossary() -> str:
    return render_template(
        "pages/public/glossary.html", product=PRODUCT, money=MONEY, detectors=introduce_detectors()
    )
