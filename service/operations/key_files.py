"""The secret key and the encryption key in files: made on first use, replaced in three steps."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from service.config.secret_files import SUFFIX
from service.core.durable_files import write_private
from service.errors import ConfigError

KEYS = SECRET_KEY, ENCRYPTION_KEY = "secret_key", "encryption_key"
FALLBACKS = "_fallbacks"


def new_key() -> str:
    return secrets.token_urlsafe(48)


@dataclass(frozen=True)
class KeyFiles:
    """The file of the key in use, and the file of the others that are accepted.

    A key is replaced in three steps, with a restart after each. add: every process accepts the new
    key. use: it signs and seals. drop: the old one is refused. With fewer steps, a process that
    already uses the new key would meet one that doesn't know it.
    """

    current: Path
    fallbacks: Path

    @classmethod
    def of(cls, data_dir: Path, name: str) -> Self:
        """Return the files in a data folder, which survive restarts of `up`."""
        return cls(data_dir / name, data_dir / f"{name}{FALLBACKS}")

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
        return cls.of(data_dir, name)

    def make(self) -> str:
        """Return the key in use, created on first use."""
        if not self.current.exists():
            write_private(self.current, f"{new_key()}\n".encode())
        return self.load_key()

    def add(self) -> None:
        """Let a new key be accepted."""
        if self.load_fallbacks():
            raise ConfigError(f"{self.fallbacks} has a key already; use or drop it first")
        self.load_key()  # there must be one to replace
        self._write(self.fallbacks, new_key())

    def use(self) -> None:
        """Use the accepted key, and accept the one that was in use."""
        key, others = self.load_key(), self.load_fallbacks()
        if not others:
            raise ConfigError(f"{self.fallbacks} has no key; add one first")
        # In this order, a process that starts in between knows both keys.
        self._write(self.fallbacks, " ".join([*others, key]))
        self._write(self.current, others[0])
        self._write(self.fallbacks, " ".join([*others[1:], key]))

    def drop(self) -> None:
        """Accept no other key than the one in use."""
        self.load_key()
        self._write(self.fallbacks, "")

    def load_key(self) -> str:
        try:
            return self.current.read_text().strip()
        except OSError as error:
            raise ConfigError(f"can't read {self.current}: {error.strerror}") from error

    def load_fallbacks(self) -> list[str]:
        return self.fallbacks.read_text().split() if self.fallbacks.exists() else []

    def _write(self, path: Path, text: str) -> None:
        """Replace a file at once, and keep who may read it; a new one is as that of the key."""
        kept = (path if path.exists() else self.current).stat()
        owner, mode = (kept.st_uid, kept.st_gid), kept.st_mode & 0o777
        write_private(path, f"{text}\n".encode(), owner, mode)
