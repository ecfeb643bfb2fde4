"""The ids in paths: described once, and judged the same by every route."""

import re
from typing import Final

from service.errors import InvalidRequestError

AUDIT_ID_DOCUMENT: Final = {
    "in": "path",
    "name": "audit_id",
    "description": "As ingest, an upload or the list of audits told it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_POSSIBLE_ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,200}")


def check_audit_id(audit_id: str) -> str:
    """Raise `InvalidRequestError` for what cannot be an id; one that names nothing passes."""
    if _POSSIBLE_ID.fullmatch(audit_id) is None:
        raise InvalidRequestError("This cannot be the id of an audit.")
    return audit_id
