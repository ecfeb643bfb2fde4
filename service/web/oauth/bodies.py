"""Read the body of a program's OAuth request: a small form, each parameter once."""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import request

from service.errors import BadRequestError
from service.web.http.bodies import read_body

P = ParamSpec("P")
R = TypeVar("R")

FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_BYTES: Final = 16 * 1024


def form_body(view: Callable[P, R]) -> Callable[P, R]:
    """Read the form; reject other content types and repeated parameters (RFC 6749, 3.2)."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if request.mimetype != FORM_TYPE:
            raise BadRequestError(f"Send the parameters as {FORM_TYPE}.")
        read_body(_MAX_BYTES)
        for _name, values in request.form.lists():
            if len(values) > 1:
                raise BadRequestError("Send each parameter only once.")
        return view(*args, **kwargs)

    return checked
