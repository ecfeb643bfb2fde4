"""Hooks that schemathesis loads first; they disable its search for accepted requests.

That search doubles the time and pays off only after a thousand examples per operation, according to
its documentation. Instead, we pass it values that exist.
"""

import hypothesis


def _tell_nothing(observation: float, *, label: str = "") -> float:
    return observation


hypothesis.target = _tell_nothing
