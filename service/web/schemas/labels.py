"""What people call their keys and tokens."""

from collections.abc import Mapping
from typing import Final

from service.errors import InvalidRequestError

MAX_LENGTH: Final = 60


def read_label(form: Mapping[str, str], field: str = "label") -> str:
    """The label of a form on one line; raises `InvalidRequestError` for one that is too long."""
    text = "".join(one if one.isprintable() else " " for one in form.get(field, ""))
    label = " ".join(text.split())
    if len(label) > MAX_LENGTH:
        raise InvalidRequestError(f"A {field} has at most {MAX_LENGTH} characters.")
    return label
