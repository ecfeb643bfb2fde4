"""Replace a key that is in files, in three steps with a restart after each.

add: every process accepts the new key. use: it signs and seals. drop: the old one is refused. With
fewer steps, a process that already uses the new key would meet one that doesn't know it.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from service.config.secret_files import SUFFIX
from service.errors import ConfigError
from service.operations.local.run_state import FALLBACKS_SUFFIX, new_key


@dataclass(frozen=True)
class KeyFiles:
    """The file of the key in use, and the file of the others that are accepted."""

    current: Path
    fallbacks: Path

    @classmethod
    def find(cls, name: str, environment: Mapping[str, str], data_dir: Path) -> Self:
        """Return the files that the environment names, or else those of a data folder."""
        setting = name.upper()
        named = [
            environment.get(f"{each}{SUFFIX}", "") for each in (setting, f"{setting}_FALLBACKS")
        ]
        if all(named):
            return cls(*map(Path, named))
        if any(named) or environment.get(setting):
            raise ConfigError(
                f"set both {setting}{SUFFIX} and {setting}_FALLBACKS{SUFFIX}, or change the"
                " variables where you keep them"
            )
        return cls(data_dir / name, data_dir / f"{name}{FALLBACKS_SUFFIX}")

    def add(self) -> None:
        """Let a new key be accepted."""
        if self._others():
            raise ConfigError(f"{self.fallbacks} has a key already; use or drop it first")
        self.load_key()  # there must be one to replace
        _write(self.fallbacks, new_key(), like=self.current)

    def use(self) -> None:
        """Use the accepted key, and accept the one that was in use."""
        key, others = self.load_key(), self._others()
        if not others:
            raise ConfigError(f"{self.fallbacks} has no key; add one first")
        # In this order, a process that starts in between knows both keys.
        _write(self.fallbacks, " ".join([*others, key]))
        _write(self.current, others[0])
        _write(self.fallbacks, " ".join([*others[1:], key]))

    def drop(self) -> None:
        """Accept no other key than the one in use."""
        self.load_key()
        _write(self.fallbacks, "", like=self.current)

    def load_key(self) -> str:
        try:
            return self.current.read_text().strip()
        except OSError as error:
            raise ConfigError(f"can't read {self.current}: {error.strerror}") from error

    def _others(self) -> list[str]:
        return self.fallbacks.read_text().split() if self.fallbacks.exists() else []


def _write(path: Path, text: str, *, like: Path | None = None) -> None:
    """Replace a file at once, and keep who may read it; a new one is `like` another."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")
        with contextlib.suppress(FileNotFoundError):
            kept = (path if path.exists() else like or path).stat()
            os.fchown(descriptor, kept.st_uid, kept.st_gid)
            os.fchmod(descriptor, kept.st_mode & 0o777)
    temporary.replace(path)
