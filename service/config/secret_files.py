"""Secrets from files: `SECRET_KEY_FILE=/run/secrets/key` has the same effect as `SECRET_KEY`.

Container platforms mount secrets as files, which programs that a service starts can't inherit.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from service.errors import ConfigError

SUFFIX: Final = "_FILE"
_LARGEST_BYTES: Final = 64 * 1024


def read_secret_files(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the environment with these secrets read from their files.

    Raises `ConfigError` naming every file that is unusable, without its contents.
    """
    values, problems = dict(environment), list[str]()
    for name in names:
        path = values.pop(f"{name}{SUFFIX}", "").strip()
        if not path:
            continue
        if values.get(name, "").strip():
            problems.append(f"set either {name} or {name}{SUFFIX}, not both")
            continue
        try:
            with Path(path).open("rb") as file:
                content = file.read(_LARGEST_BYTES + 1)
            if len(content) > _LARGEST_BYTES:
                raise ValueError("the file is too large")
            try:
                text = content.decode().strip()
            except UnicodeDecodeError:
                raise ValueError("the file isn't text") from None
            if not text and not name.endswith("_FALLBACKS"):
                raise ValueError("the file is empty")
            values[name] = text
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"{name}{SUFFIX} can't be used: {reason}")
    if problems:
        raise ConfigError("; ".join(problems))
    return values


def overlay(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with other settings, which also replace files of the same names."""
    replaced = {f"{name}{SUFFIX}" for name in settings}
    return {**{name: environment[name] for name in environment.keys() - replaced}, **settings}
