"""The scopes that an application asks for."""

import re

from service.web.auth.callers import SCOPES


def find_scopes(text: str) -> list[str]:
    """The scopes of a list that spaces or pluses separate; none where it holds anything else."""
    asked = set(re.split(r"[ +]+", text.strip(" +")))
    return [scope for scope in SCOPES if scope in asked] if asked <= set(SCOPES) else []
