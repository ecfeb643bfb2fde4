"""Figures of money have one definition and one rounding, and the hero is made of them."""

from decimal import Decimal

from msgspec.structs import replace

from detectors.contract import AuditSummary
from detectors.wording.figures import changed_from
from detectors.wording.hero import make_hero, make_limit
from detectors.wording.money import write_figure
from tests.cases import each_case
from tests.detectors.reports import make_report


@each_case(
    ("name", "amount", "words"),
    [
        ("spent", "714.855", "$714.86"),
        ("realized_savings", "39.125", "$39.13"),
        ("monthly_spend", "714.94", "$715"),
        ("forecast", "704.5", "$705"),
        ("potential_savings", "15.94", "$16"),
        ("potential_savings", "9.99", "$9.99"),
        ("potential_savings", "9.995", "$10"),
        ("potential_savings", "-3", "−$3.00"),
    ],
)
def test_what_was_spent_has_cents_and_what_is_projected_has_none(
    name: str, amount: str, words: str
) -> None:
    assert write_figure(name, Decimal(amount)) == words


@each_case(
    ("now", "before", "words"),
    [
        ("12", "0", "New: nothing in Oct 2026"),
        ("5000", "1", "New: $1.00 in Oct 2026"),
        ("12", "10", "+20% from $10.00 in Oct 2026"),
        ("10", "10", "No change, from $10.00 in Oct 2026"),
        ("0.5", "0", "$0.00 in Oct 2026, less than $1 apart"),
    ],
)
def test_a_change_is_a_phrase(now: str, before: str, words: str) -> None:
    assert changed_from(Decimal(now), Decimal(before), "in Oct 2026") == words


ALL_TONES = ["verified", "estimated", "conditional"]


def _audit(verified: str, estimated: str, conditional: str, spent: str = "690") -> AuditSummary:
    sums = Decimal(verified), Decimal(estimated), Decimal(conditional)
    return replace(
        make_report().audit,
        projection="good",
        projected_spend_usd=Decimal(spent),
        projected_savings_usd=sums[0] + sums[1],
        verified_savings_usd=sums[0],
        estimated_savings_usd=sums[1],
        conditional_savings_high_usd=sums[2],
    )


@each_case(
    ("sums", "sentence", "tones"),
    [
        (("0", "15.94", "9.99"), "You could save $16–26 a month", ["estimated", "conditional"]),
        (("7", "60", "15"), "You could save $67–82 a month", ALL_TONES),
        (("2", "3", "15"), "You could save $5.00–$20 a month", ALL_TONES),
        (("12", "0", "0"), "You could save $12 a month", ["verified"]),
        (("0", "0", "15"), "You could save up to $15 a month", ["conditional"]),
        (("0", "0", "0"), "Nothing to save found in $690 a month", []),
    ],
)
def test_the_hero_says_what_could_be_saved_and_has_no_zero_parts(
    sums: tuple[str, str, str], sentence: str, tones: list[str]
) -> None:
    hero = make_hero(_audit(*sums))
    assert hero.sentence == sentence
    assert [part.tone for part in hero.parts] == tones
    assert sum(part.dollars for part in hero.parts) == hero.high
    # The label stands before it already.
    assert not any(part.label.lower() in part.explanation.lower() for part in hero.parts)


def test_sums_of_findings_are_limits_and_of_a_short_period_of_it() -> None:
    hero = make_hero(replace(_audit("0", "15.94", "0"), projection="none"))
    assert hero.sentence == "You could save $16 in this period"
    # An audit of the first releases has one estimate.
    audit = _audit("0", "9", "0")
    old = replace(audit, verified_savings_usd=None, estimated_savings_usd=None)
    assert make_hero(old).sentence == "You could save $9.00 a month"


def test_the_sums_of_findings_are_limits() -> None:
    audit = _audit("0", "0", "0")
    hero = make_limit({"ESTIMATED": Decimal(90), "VERIFIED": Decimal(0)}, audit)
    assert (hero.sentence, len(hero.parts)) == ("You could save up to $90 a month", 1)
    assert make_limit({}, audit).sentence == "Nothing to save found"
