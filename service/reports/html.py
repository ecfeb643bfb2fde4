"""The report document as an HTML page, and how its numbers are written."""

from decimal import Decimal
from typing import Final

from flask import Flask, render_template

from detectors.contract import Report
from service.models.audits import Audit

_SMALL_USD: Final = Decimal("0.01")

SEVERITY_WORDS: Final = {"high": "High", "medium": "Medium", "low": "Low"}
CONFIDENCE_WORDS: Final = {
    "VERIFIED": "follows from the billed counts",
    "ESTIMATED": "rests on the assumption that the detector's page states",
    "INFORMATIONAL": "no dollars are claimed",
}
DETECTOR_NAMES: Final = {
    "d1_model_overkill": "Short answers from a flagship model",
    "d2_missed_caching": "Missed prompt caching",
    "d3_context_bloat": "Oversized prompts",
    "d4_duplicate_calls": "The same call again, within seconds",
    "d5_max_tokens_misfit": "Ill-fitting answer limit",
    "d6_chatty_loop": "One item at a time",
}


def print_report(audit: Audit, document: bytes) -> str:
    report = Report.from_json(document)
    return render_template("report/report.html", audit=audit, report=report)


def print_waiting(audit: Audit) -> str:
    return render_template("report/waiting.html", audit=audit)


def register_filters(app: Flask) -> None:
    app.jinja_env.filters.update(usd=usd, whole_usd=whole_usd, percent=percent, number=number)
    app.jinja_env.globals.update(
        detector_names=DETECTOR_NAMES,
        severity_words=SEVERITY_WORDS,
        confidence_words=CONFIDENCE_WORDS,
    )


def usd(amount: Decimal) -> str:
    """$1,234.56; an amount too small for cents keeps its leading digits."""
    if 0 < abs(amount) < _SMALL_USD:
        return f"${float(amount):.2g}" if abs(amount) >= Decimal("0.0001") else "< $0.0001"
    return f"${amount:,.2f}"


def whole_usd(amount: Decimal) -> str:
    """$1,235, for a headline; amounts under $10 keep their cents."""
    return usd(amount) if abs(amount) < 10 else f"${amount:,.0f}"


def percent(value: float) -> str:
    """12.3 %, without a decimal that says nothing."""
    text = f"{value:.1f}"
    return f"{text.removesuffix('.0')} %"


def number(value: int) -> str:
    return f"{value:,}"
