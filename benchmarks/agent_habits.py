"""Sessions with habits that cost, made up, each with what it costs, and traps beside them.

`Habits` writes sessions of Claude Code that go on after a long pause, sub-agents of a large model
with short answers, and the same request again and again. A trap looks alike, and nothing may be
claimed of it.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from benchmarks.agent_sessions import START, Folder

LARGE, SMALL = "claude-opus-4-7", "claude-haiku-4-5-20251001"
LONG_SESSION, SUBAGENTS, LOOP = "long_sessions", "large_subagents", "retry_loops"
# Dollars per million tokens: https://platform.claude.com/docs/en/about-claude/pricing
_OPUS: Final = {"input": 5.0, "read": 0.5, "write": 6.25, "output": 25.0}
_SONNET: Final = {"input": 3.0, "read": 0.3, "write": 3.75, "output": 15.0}


class Turn(NamedTuple):
    """A call: seconds since the one before, and its counts."""

    seconds: float
    fresh: int
    read: int
    written: int
    output: int

    def usd(self, rates: dict[str, float]) -> float:
        counts = (self.fresh, self.read, self.written, self.output)
        names = ("input", "read", "write", "output")
        return sum(count * rates[name] for count, name in zip(counts, names, strict=True)) / 1e6


@dataclass(frozen=True)
class Habit:
    """What a session's habit costs in dollars, at most; its time is that of its first call."""

    kind: str
    session: str
    at: datetime
    usd: float


class Habits:
    """Writes the sessions below a folder; `planted` is what they cost."""

    def __init__(self, folder: Folder, seed: int = 5) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self.planted: list[Habit] = []

    def add(self, each: int) -> None:
        """Write so many sessions of each habit, and as many of each trap."""
        for _ in range(each):
            for write in (self._stay, self._delegate, self._retry, self._trap):
                write()

    def _write(
        self, turns: list[Turn], model: str = LARGE, *, is_sidechain: bool = False
    ) -> tuple[str, list[datetime]]:
        """Write a session with these calls; return its name, and the time of each."""
        folder, session = self._folder, self._folder.uuid()
        at = START + timedelta(hours=self._random.randrange(24 * 30))
        common = {"userType": "external", "cwd": "/home/dev/boats", "version": "2.1.140"}
        lines, times = list[dict[str, Any]](), list[datetime]()
        for turn in turns:
            at += timedelta(seconds=turn.seconds)
            counts = turn.fresh, turn.read, turn.written, turn.output
            usage = folder.claude_usage(*counts, "standard", is_hour=False)
            lines += folder.snapshots(
                common, session, model, at, usage, turn.output, is_sidechain=is_sidechain
            )
            times.append(at)
        folder.write(folder.home / ".claude" / "projects" / "boats" / f"{session}.jsonl", lines)
        return session, times

    def _turns(self, base: int, count: int, pause: int = 0) -> list[Turn]:
        """Return calls of a context that grows; after `pause` seconds, one that is cold."""
        held = 0
        turns = []
        for number in range(count):
            new = self._random.randrange(400, 2_600) if held else base
            is_cold = not number and pause
            read, written = (0, base) if is_cold else (held, new)
            seconds = pause if is_cold else self._random.randrange(20, 200)
            turns.append(Turn(seconds, 3, read, written, self._random.randrange(60, 900)))
            held = read + written
        return turns

    def _stay(self, pause: int = 0, later: int = 0, turns: int = 40, base: int = 16_000) -> None:
        """Go on after a pause, so that each later call reads what was before it."""
        rng = self._random
        before = self._turns(base, turns)
        whole = before[-1].read + before[-1].written
        after = self._turns(
            whole, later or rng.randrange(8, 20), pause or rng.randrange(4_000, 36_000)
        )
        session, times = self._write([*before, *after])
        if not (pause or later or turns < 40):
            usd = (whole - base) * (len(after) - 1) * _OPUS["read"] / 1e6
            self.planted.append(Habit(LONG_SESSION, session, times[turns], usd))

    def _delegate(
        self, longest: int = 390, count: int = 8, model: str = LARGE, *, is_sidechain: bool = True
    ) -> None:
        """Let sub-agents of the large model answer in a few tokens."""
        turns = self._turns(9_000, count)
        turns = [turn._replace(output=self._random.randrange(40, 390)) for turn in turns]
        turns[-1] = turns[-1]._replace(output=longest)
        session, times = self._write(turns, model, is_sidechain=is_sidechain)
        if longest < 400 and count > 4 and model == LARGE and is_sidechain:
            usd = sum(turn.usd(_OPUS) - turn.usd(_SONNET) for turn in turns)
            self.planted.append(Habit(SUBAGENTS, session, times[0], usd))

    def _retry(self, count: int = 0, result: int = 700, spread: int = 0) -> None:
        """Get a result of one size again and again, which nobody needs after the second time."""
        turns = self._turns(16_000, 12)
        repeats = count or self._random.randrange(5, 12)
        for number in range(repeats):
            held = turns[-1].read + turns[-1].written
            turns.append(Turn(15, 3, held, result + spread * (number % 3), 90))
        session, times = self._write([*turns, *self._after(turns)])
        if not spread and repeats > 3 and result > 50:
            needless = turns[12 + 2 :]
            usd = sum(turn.usd(_OPUS) for turn in needless)
            self.planted.append(Habit(LOOP, session, times[12 + 2], usd))

    def _after(self, turns: list[Turn]) -> list[Turn]:
        held = turns[-1].read + turns[-1].written
        return [Turn(40, 3, held, 1_234, 300), Turn(50, 3, held + 1_234, 2_345, 200)]

    def _trap(self) -> None:
        # A pause that is too short, few turns after it, and little before it.
        self._stay(pause=3_000)
        self._stay(later=2)
        self._stay(turns=5)
        # The context is compacted after the pause.
        self._write([*self._turns(16_000, 40), *self._turns(21_000, 20, pause=9_000)])
        self._delegate(longest=900)
        self._delegate(count=4)
        self._delegate(model=SMALL)
        self._delegate(is_sidechain=False)
        # A result of nearly one size, three of one size, and what waits for something.
        self._retry(spread=2)
        self._retry(count=3)
        self._retry(result=30)
