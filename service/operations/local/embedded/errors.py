"""Errors of the local stack; every message is one line for a person."""

from pathlib import Path


class ServersError(Exception):
    """Base of all errors that this package raises."""


class AlreadyRunningError(ServersError):
    """Another process owns the data folder."""

    def __init__(self, folder: Path, owner: int | None) -> None:
        who = f" (process {owner})" if owner else ""
        super().__init__(f"tallystick is already running in {folder}{who}")


class NotInstalledError(ServersError):
    """A server's program is missing."""

    def __init__(self, program: str, setting: str) -> None:
        super().__init__(
            f"{program} isn't installed; set {setting}, or run: "
            'pip install "tallystick-server[embedded]"'
        )


class ServerStartError(ServersError):
    """A server doesn't start; its log says why."""

    def __init__(self, program: str, log_file: Path) -> None:
        super().__init__(f"{program} didn't start; see {log_file}")
