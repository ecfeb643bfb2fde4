"""The figures of the dashboard that are savings: avoidable spend, by how sure it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from sqlalchemy.orm import Session

from detectors.wording.figures import change, day, usd, whole_usd
from detectors.wording.headline import savings_range
from detectors.wording.projection import TOO_LITTLE_DATA, is_monthly, per_month
from service.models.audits.audits import Audit
from service.models.calls.account_audits import AccountAudits
from service.models.calls.finding_list import FINDING_LABELS, sum_confidences

_NONE: Final = Decimal(0)
# As the words of a change read within a sentence.
_WITHIN: Final = {"No change": "unchanged", "New": "new"}


@dataclass(frozen=True, kw_only=True)
class Avoidable:
    """Avoidable spend of an audit of the account, or of the findings of a route or a model."""

    values: Sequence[str]  # apart, because they differ in how sure they are
    conditional: str
    range: str = ""
    unit: str = "/month"
    comparison: str = ""


def read_avoidable(
    session: Session, account_id: str, audits: AccountAudits, only: Mapping[str, str]
) -> Avoidable | None:
    """Return avoidable spend; None before the first audit, and where findings don't say it."""
    latest = audits.latest
    if latest is None or any(name not in FINDING_LABELS for name in only):
        return None
    if only:
        return _of_findings(sum_confidences(session, account_id, only), latest)
    low, high = latest.estimated_savings_low_usd, latest.estimated_savings_high_usd
    span = savings_range(low, high)
    verified = f"{whole_usd(latest.verified_savings_usd or _NONE)} verified"
    estimated = f"{whole_usd(latest.estimated_savings_usd or _NONE)} estimated"
    return Avoidable(
        values=(verified, estimated),
        range=f"Estimated: {span}" if span else "",
        conditional=_up_to(latest.conditional_savings_high_usd or _NONE),
        unit=per_month(latest),
        comparison=_compare(latest, audits.earlier) if is_monthly(latest) else TOO_LITTLE_DATA,
    )


def _of_findings(sums: Mapping[str, Decimal], audit: Audit) -> Avoidable:
    """Return the sums of findings, which are upper limits because findings can overlap."""
    verified, estimated = sums.get("VERIFIED", _NONE), sums.get("ESTIMATED", _NONE)
    return Avoidable(
        values=(f"{_limit(verified)} verified", f"{_limit(estimated)} estimated"),
        conditional=_up_to(sums.get("CONDITIONAL", _NONE)),
        unit=per_month(audit),
        comparison="" if is_monthly(audit) else TOO_LITTLE_DATA,
    )


def _limit(amount: Decimal) -> str:
    return f"up to {whole_usd(amount)}" if amount else usd(amount)


def _up_to(amount: Decimal) -> str:
    if not amount:
        return ""
    return f"Up to {whole_usd(amount)} more if cheaper models pass your evaluation"


def _compare(latest: Audit, earlier: Audit | None) -> str:
    """Compare with the audit of the period before."""
    if earlier is None or earlier.verified_savings_usd is None or not is_monthly(earlier):
        return "No audit of the month before to compare with"
    changes = (
        (name, change(now or _NONE, before or _NONE))
        for name, now, before in (
            ("verified", latest.verified_savings_usd, earlier.verified_savings_usd),
            ("estimated", latest.estimated_savings_usd, earlier.estimated_savings_usd),
        )
    )
    words = ", ".join(
        f"{name} {_WITHIN.get(words, words)}" for name, words in changes if words != "–"
    )
    return f"Since {day(earlier.created_at)}: {words}" if words else ""
