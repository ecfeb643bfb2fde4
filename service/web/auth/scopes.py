"""The scopes that a token can carry, and what each allows."""

import re
from collections.abc import Mapping
from typing import Final

READ_AUDITS: Final = "read:audits"
READ_FINDINGS: Final = "read:findings"
SCOPE_WORDS: Final[Mapping[str, str]] = {
    READ_AUDITS: "List audits with their totals",
    READ_FINDINGS: "Read the findings of each audit",
}
SCOPES: Final = tuple(SCOPE_WORDS)


def find_scopes(text: str) -> list[str]:
    """Return the scopes in a list separated by spaces or pluses; none if any is unknown."""
    asked = set(re.split(r"[ +]+", text.strip(" +")))
    return [scope for scope in SCOPES if scope in asked] if asked <= set(SCOPES) else []
