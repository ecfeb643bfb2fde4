"""What schemathesis loads first: the search for requests that are accepted costs as much again.

It begins to pay after a thousand examples of an operation, says the library that does it. Here the
values of things that exist are named instead.
"""

import hypothesis


def _tell_nothing(observation: float, *, label: str = "") -> float:
    return observation


hypothesis.target = _tell_nothing
