"""Tests on generated examples: a tenth of them in `make test`, all of them in `make stress`."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.worker.support.promises import at_both_scales, scaled

Test = Callable[..., None]


def explored(count: int, *strategies: Any, **named: Any) -> Callable[[Test], Test]:
    """Decorate a test like `given`, with this many examples at full count."""

    def decorate(test: Test) -> Test:
        def explore(share: float) -> None:
            enough = settings(
                deadline=None,
                max_examples=scaled(count, share),
                # It counts seconds, which a busy machine takes longer for.
                suppress_health_check=[HealthCheck.too_slow],
            )
            with_examples: Any = given(*strategies, **named)
            enough(with_examples(test))()

        explore.__name__, explore.__doc__, explore.__module__ = (
            test.__name__,
            test.__doc__,
            test.__module__,
        )
        return at_both_scales(explore)

    return decorate
