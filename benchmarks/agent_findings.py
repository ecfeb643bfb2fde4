"""Findings of sessions against planted ones: precision and recall, in dollars.

    python benchmarks/agent_findings.py [--sessions N]

`agent_sessions` plants pauses of 6 to 49 minutes after which the context is written again. In
sessions whose caches live five minutes that is a cold restart; in those whose caches live an hour
something else has ended the cache, and nothing may be claimed. `agent_habits` plants the other
findings, each beside traps that look alike.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.agent_habits import LONG_SESSION, LOOP, SUBAGENTS, Habit, Habits
from benchmarks.agent_sessions import Folder, Restart, write_folder
from detectors.agents import reading
from detectors.agents.findings import ColdRestart, Finding, Findings, find_all
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.agents.views import Choice

# What a write for five minutes costs more than a read, in dollars per million tokens: Anthropic's
# price list, https://platform.claude.com/docs/en/about-claude/pricing. Fast mode of Opus 4.6, until
# July 24, 2026, was six times as much.
MORE_USD: Final = {"claude-opus-4-6": 6.25 - 0.5, "claude-sonnet-4-6": 3.75 - 0.3}
FAST: Final = 6
FAST_UNTIL: Final = "2026-07-24"
LEAST: Final = 0.99


class Score(NamedTuple):
    """Dollars that are planted, claimed, and both."""

    planted: float
    claimed: float
    right: float

    @property
    def precision(self) -> float:
        return self.right / self.claimed if self.claimed else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.planted if self.planted else 1.0


def usd_of(restart: Restart) -> float:
    times = FAST if restart.is_fast and f"{restart.at:%Y-%m-%d}" < FAST_UNTIL else 1
    return restart.tokens * MORE_USD[restart.model] * times / 1e6


def score(planted: Sequence[Restart], found: Sequence[ColdRestart]) -> Score:
    """Compare by session and time; of a claim, what is planted there is right."""
    known = {
        (each.session, int(each.at.timestamp())): usd_of(each)
        for each in planted
        if not each.is_hour
    }
    claimed = {(each.session, each.at): each.usd or 0.0 for each in found}
    right = sum(min(usd, known.get(key, 0.0)) for key, usd in claimed.items())
    return Score(sum(known.values()), sum(claimed.values()), right)


def score_habits(planted: Sequence[Habit], found: Findings, kind: str) -> Score:
    """Compare the upper ends of one kind's claims, by session and time."""
    known = {
        (each.session, int(each.at.timestamp())): each.usd for each in planted if each.kind == kind
    }
    rows: Sequence[Finding] = getattr(found, kind)
    claimed = {(each.session, each.at): each.usd or 0.0 for each in rows}
    right = sum(min(usd, known.get(key, 0.0)) for key, usd in claimed.items())
    return Score(sum(known.values()), sum(claimed.values()), right)


def find_in(home: Path) -> Findings:
    """Read the sessions below a home folder, and return what they show."""
    ledger = Ledger(":memory:")
    reading.update(ledger, find_sources({}, home), processes=1)
    reading.price(ledger)
    return find_all(ledger, Choice())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = write_folder(Path(name) / "sessions", options.sessions, 0)
        restarts = find_in(folder.home).cold_restarts
        habits = Habits(Folder(Path(name) / "habits", random.Random(41), 200))
        habits.add(max(1, options.sessions // 10))
        found = find_in(Path(name) / "habits")
    hours = sum(each.is_hour for each in folder.restarts)
    print(f"{len(folder.restarts)} planted, {hours} of them with caches that live an hour")
    results = {"cold_restarts": (len(restarts), score(folder.restarts, restarts))}
    for kind in (LONG_SESSION, SUBAGENTS, LOOP):
        result = score_habits(habits.planted, found, kind)
        results[kind] = (len(getattr(found, kind)), result)
    for kind, (count, result) in results.items():
        print(f"{kind}: {count} found, ${result.claimed:,.2f} of ${result.planted:,.2f} planted")
        print(f"  precision {result.precision:.3f}, recall {result.recall:.3f}, in dollars")
    worst = min(min(each.precision, each.recall) for _, each in results.values())
    return 0 if worst >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
