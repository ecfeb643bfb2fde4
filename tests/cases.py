"""Many small cases in one test: collecting them as tests takes longer than they do."""

import json
import tomllib
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]


def data_of(file: str) -> dict[str, Any]:
    """Return the long tables of a test file: its namesake in TOML, or in JSON if it has nulls."""
    toml = Path(file).with_suffix(".toml")
    if toml.exists():
        return tomllib.loads(toml.read_text())
    tables: dict[str, Any] = json.loads(toml.with_suffix(".json").read_text())
    return tables


def each_case(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Try a test with each of these values, named as for `pytest.mark.parametrize`.

    All are tried, and what each wrong one raises says which it was; one that skips skips the test
    unless another is wrong. Cases share the fixtures of
    their test, so this is for tests without fixtures, or with some that no case changes.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    cases = [value if len(wanted) > 1 else (value,) for value in values]
    assert cases, "there is nothing to try"

    def decorate(test: Test) -> Test:
        @wraps(test)
        def try_each(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            skipped: BaseException | None = None
            for case in cases:
                chosen = dict(zip(wanted, case, strict=True))
                try:
                    test(**fixtures, **chosen)
                except pytest.skip.Exception as error:
                    skipped = error
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {chosen!r:.500}")
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"in {len(failures)} of {len(cases)} cases", failures)
            if skipped is not None:
                raise skipped

        others = [each for each in signature(test).parameters.values() if each.name not in wanted]
        try_each.__signature__ = Signature(others)  # type: ignore[attr-defined]
        return try_each

    return decorate
