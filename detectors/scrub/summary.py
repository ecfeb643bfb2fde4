"""What became of a raw log, in figures: nothing here holds a value of it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

NOT_JSON: Final = "not JSON objects"
TOO_LONG: Final = "larger than 32 MiB"
ECHO: Final = "calls logged more than once"
SNAPSHOT: Final = "snapshots of a message that another line has in full"


@dataclass
class Summary:
    """How many calls were written, and what was left out for which reason."""

    files: int = 0
    calls: int = 0
    hashed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def reasons(self) -> list[tuple[str, int]]:
        """The reasons, that of most objects first."""
        return sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
