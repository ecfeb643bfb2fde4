"""The scopes of a token, and what each allows."""

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
# Of tokens that somebody mints for a program; applications only read.
WRITE_MARKS: Final = "write:marks"
TOKEN_SCOPE_WORDS: Final[Mapping[str, str]] = {
    **SCOPE_WORDS,
    WRITE_MARKS: "Mark deploys on charts, and remove marks",
}
TOKEN_SCOPES: Final = tuple(TOKEN_SCOPE_WORDS)


def find_scopes(text: str) -> list[str]:
    """Return the scopes in a list separated by spaces or pluses; none if any is unknown."""
    requested = set(re.split(r"[ +]+", text.strip(" +")))
    return [scope for scope in SCOPES if scope in requested] if requested <= set(SCOPES) else []
