"""The response of each route to each kind of credential, of its own account and of another.

The table is in access_table.toml. A row has the response to a credential that the route doesn't
accept, and for each that it accepts, the responses to its own account and to another account.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.service.support.scenes import batch

SESSION, KEY, ADMIN = "session", "ingest key", "admin"
RT_AUDITS, RT_FINDINGS, RT_BOTH = "read token: audits", "read token: findings", "read token: both"
AT_AUDITS, AT_FINDINGS, AT_BOTH = (
    "access token: audits",
    "access token: findings",
    "access token: both",
)
LIST_READERS = (RT_AUDITS, RT_BOTH, AT_AUDITS, AT_BOTH)
FINDINGS_READERS = (RT_FINDINGS, RT_BOTH, AT_FINDINGS, AT_BOTH)
BOTH_READERS = (RT_BOTH, AT_BOTH)
READERS = (RT_AUDITS, RT_FINDINGS, RT_BOTH, AT_AUDITS, AT_FINDINGS, AT_BOTH)
CREDENTIALS = ("none", KEY, *READERS, SESSION, ADMIN)


class Cell(NamedTuple):
    """The responses to the credential's own tenant and to another tenant."""

    mine: int
    others: int


@dataclass(frozen=True)
class Row:
    denied: int
    taken: Mapping[str, Cell]
    body: Mapping[str, Any] | None = None

    def cell(self, credential: str) -> Cell:
        return self.taken.get(credential, Cell(self.denied, self.denied))


# For each section of the table: what it answers to others, and whose credential it takes.
_SECTIONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "key": (401, (KEY,)),
    "audits": (401, LIST_READERS),
    "findings": (401, FINDINGS_READERS),
    "report": (401, BOTH_READERS),
    "session": (401, (SESSION,)),
    "page": (303, (SESSION,)),
    "form": (403, (SESSION,)),
    "admin": (404, (ADMIN,)),
}


def _row(section: str, route: str, mine: int, others: int | None = None, body: Any = None) -> Row:
    if section == "open":
        return Row(mine, {}, body)
    denied, accepted = _SECTIONS[section]
    readers = READERS if accepted[0] in READERS else ()
    cell = Cell(mine, mine if others is None else others)
    taken = dict.fromkeys(readers, Cell(403, 403)) | dict.fromkeys(accepted, cell)
    if section == "form":
        body = body or {"form": {}}
    return Row(denied, taken, {"json": batch()} if route.endswith("/ingest") else body)


_FILE = Path(__file__).with_suffix(".toml")
TABLE: Mapping[tuple[str, str], Row] = {
    (route.split()[0], route.split()[1]): _row(section, route, *cells)
    for section, rows in tomllib.loads(_FILE.read_text()).items()
    for route, cells in rows.items()
}
