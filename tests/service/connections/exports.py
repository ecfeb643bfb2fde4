"""Reports as people download them from each provider, and what they come to."""

import tomllib
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

PERSON = "canary-4711"  # whom no report may leave behind


@dataclass(frozen=True)
class Sample:
    """A file, and what it comes to: dollars and tokens."""

    provider: str
    report: str
    text: str
    usd: str = "0"
    prompt: int = 0
    cached: int = 0
    written: int = 0
    completion: int = 0
    first: date = date(2026, 9, 1)
    last: date = date(2026, 9, 2)
    left_out: int = 0

    @property
    def billed(self) -> Decimal:
        return Decimal(self.usd)


SAMPLES = {
    name: Sample(**case)
    for name, case in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
