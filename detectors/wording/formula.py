"""The formula of a finding as the steps of a calculation, each with its amount.

A report's formula is a sentence. Its terms are easier to check below each other, as on an invoice.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# … over 2 calls that cost $9.00: $3.00 in 14 days; × 2.143 to project to 30 days = $6.43/month.
_SENTENCE: Final = re.compile(
    r"(?P<terms>.+): (?P<amount>\$[^;:]+?) in (?P<days>[^;:]+?)"
    r"(?:; (?P<factor>× [^;:]+?) to project to (?P<month>[^;:]+?) = (?P<monthly>[^;:]+))?\.",
    re.DOTALL,
)
_OVER: Final = ", over "


class Step(NamedTuple):
    """A line of a calculation; `amount` is "" where only the lines below have one."""

    words: str
    amount: str


def list_steps(formula: str) -> Sequence[Step]:
    """Return the steps of a formula; one that is written in another way is a single step."""
    found = _SENTENCE.fullmatch(formula)
    if found is None:
        return [Step(formula, "")] if formula else []
    terms, over, calls = found["terms"].rpartition(_OVER)
    *before, last = (*_split(terms), f"Over {calls}") if over else _split(calls)
    steps = [Step(term, "") for term in before]
    steps.append(Step(f"{last} in {found['days']}", found["amount"]))
    if found["factor"]:
        steps.append(Step(f"{found['factor']} to project to {found['month']}", found["monthly"]))
    return steps


def _split(terms: str) -> Iterator[str]:
    """Split at what is subtracted, outside of parentheses."""
    start = depth = 0
    for at, sign in enumerate(terms):
        depth += (sign == "(") - (sign == ")")
        if not depth and terms.startswith(" − ", at):
            yield terms[start:at]
            start = at + 1
    yield terms[start:]
