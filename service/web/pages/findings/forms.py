"""What the URLs and forms of the pages about findings contain: filters, assignees and notes."""

import re
from collections.abc import Mapping
from typing import Final

from service.errors import InvalidRequestError
from service.models.calls.account_findings import ASSIGNEE, MAX_ASSIGNEE, MAX_NOTE, NOTE
from service.models.calls.finding_list import FILTERS, KEYS, UNRESOLVED_NAME, FindingFilter
from service.web.pages.tables import read_search
from service.web.schemas.account_findings import is_value

# PostgreSQL can't store a null character, and the others show as nothing.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_LINES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_filter(parameters: Mapping[str, str]) -> FindingFilter:
    """Return the filter of a URL or a form; values that can't be are ignored."""
    state = parameters.get("state", "")
    only = {name: parameters.get(name, "") for name in KEYS}
    state = state if state in FILTERS else UNRESOLVED_NAME
    return FindingFilter(
        state=state,
        has_savings=state == UNRESOLVED_NAME,
        only={name: value for name, value in only.items() if value and is_value(value)},
        search=read_search(parameters),
    )


def write_filter(shown: FindingFilter) -> dict[str, str]:
    """Return the parameters of a filter that differ from their defaults, without its search."""
    state = {} if shown.state == UNRESOLVED_NAME else {"state": shown.state}
    return state | dict(shown.only)


def read_assignee(form: Mapping[str, str], field: str = ASSIGNEE) -> str:
    """Return a name or an address, as typed; "" if it is blank."""
    text = form.get(field, "")
    if len(text) > MAX_ASSIGNEE or _CONTROL.search(text):
        raise InvalidRequestError(f"Use one line of at most {MAX_ASSIGNEE} characters.")
    return text if text.strip() else ""


def read_note(form: Mapping[str, str]) -> str:
    """Return a note, whose lines end as browsers show them; "" if it is blank."""
    text = form.get(NOTE, "").replace("\r\n", "\n")
    if len(text) > MAX_NOTE or _CONTROL_IN_LINES.search(text):
        raise InvalidRequestError(f"Use at most {MAX_NOTE:,} characters for the note.")
    return text if text.strip() else ""
