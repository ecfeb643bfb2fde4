"""Labels of keys and tokens."""

from collections.abc import Mapping
from typing import Final

from service.errors import InvalidRequestError

MAX_LENGTH: Final = 60


def read_label(form: Mapping[str, str], field: str = "label") -> str:
    """Return a form's label on one line; raise `InvalidRequestError` if it is too long."""
    text = "".join(char if char.isprintable() else " " for char in form.get(field, ""))
    label = " ".join(text.split())
    if len(label) > MAX_LENGTH:
        raise InvalidRequestError(f"Use at most {MAX_LENGTH} characters for the {field}.")
    return label
