"""What the ledger says: sums by time, project, session and model, five-hour windows, plan limits.

Billed dollars and the value of what a plan includes are never added up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final

from detectors.agents.ledger import Ledger
from detectors.wording.figures import usd

BLOCK_SECONDS: Final = 5 * 3600
_MICRO: Final = 1_000_000
_WEEK: Final = timedelta(days=7)
# By what rows are summed: an expression of the day and the columns.
KEYS: Final = {
    "daily": "{day}",
    "weekly": "date({day}, 'weekday 0', '-6 days')",
    "monthly": "substr({day}, 1, 7)",
    "project": "project",
    "session": "session",
    "model": "model",
}
_SUMS: Final = """
SELECT {key}, agent, model, is_metered, is_subagent, project, count(*),
    sum(max(0, prompt - cached - written)), sum(cached), sum(written), sum(completion),
    sum(reasoning), sum(searches), sum(CASE WHEN usd >= 0 THEN usd ELSE 0 END),
    sum(usd < 0 OR usd IS NULL), min(at), max(at)
FROM calls WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6
"""
_COUNTS: Final = (
    *("calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"),
    *("reasoning_tokens", "web_searches"),
)


@dataclass
class Sums:
    """Calls, tokens and dollars: `value_usd` of what a plan includes, `billed_usd` of others."""

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    web_searches: int = 0
    value_usd: float = 0.0
    billed_usd: float = 0.0
    subagent_usd: float = 0.0
    unpriced_calls: int = 0
    first_us: int = 0
    last_us: int = 0

    def add(self, is_metered: int, is_subagent: int, values: Sequence[Any]) -> None:
        for name, value in zip(_COUNTS, values, strict=False):
            setattr(self, name, getattr(self, name) + value)
        usd, unpriced, first, last = values[len(_COUNTS) :]
        self.value_usd += 0.0 if is_metered else usd
        self.billed_usd += usd if is_metered else 0.0
        self.subagent_usd += usd if is_subagent else 0.0
        self.unpriced_calls += unpriced
        self.first_us = min(self.first_us or first, first)
        self.last_us = max(self.last_us, last)

    @property
    def subagent_share(self) -> float:
        return self.subagent_usd / self.usd if self.usd else 0.0

    @property
    def usd(self) -> float:
        """Return all dollars, of which a share is taken; they are no sum that anyone is shown."""
        return self.value_usd + self.billed_usd

    @property
    def total_tokens(self) -> int:
        tokens = self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
        return tokens + self.output_tokens

    @property
    def cache_share(self) -> float:
        prompt = self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
        return self.cache_read_tokens / prompt if prompt else 0.0


@dataclass
class Group:
    """The sums of one day, project or session, with those of each agent and model in it."""

    key: str
    project: str = ""
    sums: Sums = field(default_factory=Sums)
    agents: dict[str, Sums] = field(default_factory=dict)
    models: dict[str, Sums] = field(default_factory=dict)

    def add(self, agent: str, model: str, values: Sequence[Any]) -> None:
        own = (self.agents.setdefault(agent, Sums()), self.models.setdefault(model, Sums()))
        for sums in (self.sums, *own):
            sums.add(values[0], values[1], values[2:])


@dataclass(frozen=True)
class Choice:
    """Which calls: between two days, both included, of a project or an agent."""

    zone: tzinfo | None = None
    since: date | None = None
    until: date | None = None
    project: str = ""
    agent: str = ""

    def where(self) -> tuple[str, list[Any]]:
        tests, values = ["1"], list[Any]()
        for day, sign, later in ((self.since, ">=", 0), (self.until, "<", 1)):
            if day is not None:
                start = datetime.combine(day + timedelta(days=later), time(), self.zone)
                tests.append(f"at {sign} ?")
                values.append(int(start.astimezone(UTC).timestamp()) * _MICRO)
        for name in ("project", "agent"):
            if value := getattr(self, name):
                tests.append(f"{name} = ?")
                values.append(value)
        return " AND ".join(tests), values


def sum_calls(ledger: Ledger, by: str, choice: Choice, *, by_project: bool = False) -> list[Group]:
    """Return the sums by a key of `KEYS`, the newest or most expensive first."""
    where, values = choice.where()
    key = KEYS[by].format(day=_day(ledger, choice.zone))
    query = _SUMS.format(key=key, where=where)
    groups: dict[tuple[str, str], Group] = {}
    for name, agent, model, metered, subagent, project, *sums in ledger.database.execute(
        query, values
    ):
        own = project if by_project or by == "session" else ""
        group = groups.setdefault((name or "", own), Group(name or "", own))
        group.add(agent, model, (metered, subagent, *sums))
    found = list(groups.values())
    if by in ("project", "model"):
        return sorted(found, key=lambda group: (-group.sums.usd, group.key))
    if by == "session":
        return sorted(found, key=lambda group: -group.sums.last_us)
    return sorted(found, key=lambda group: (group.key, group.sums.usd), reverse=True)


def total_of(groups: Iterable[Group]) -> Group:
    total = Group("total")
    for group in groups:
        for ours, theirs in ((total.agents, group.agents), (total.models, group.models)):
            for name, sums in theirs.items():
                _merge(ours.setdefault(name, Sums()), sums)
        _merge(total.sums, group.sums)
    return total


def _merge(sums: Sums, other: Sums) -> None:
    for name, value in vars(other).items():
        if name not in ("first_us", "last_us"):
            setattr(sums, name, getattr(sums, name) + value)
    sums.first_us = min(sums.first_us or other.first_us, other.first_us)
    sums.last_us = max(sums.last_us, other.last_us)


def _day(ledger: Ledger, zone: tzinfo | None) -> str:
    """Return the expression of a call's day in a time zone: its offsets, with their ends."""
    first, last = ledger.database.execute("SELECT min(at), max(at) FROM calls").fetchone()
    if first is None:
        return "''"
    first, last, step = first // _MICRO, last // _MICRO, int(_WEEK.total_seconds())
    cases, offset = "", _offset(first, zone)
    for at in range(first + step, last + step, step):
        later = _offset(at, zone)
        if later != offset:
            low, high = at - step, at  # the second at which it ends is between these
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
            cases += f"WHEN at < {high * _MICRO} THEN {offset} "
            offset = later
    shift = f"CASE {cases}ELSE {offset} END" if cases else str(offset)
    return f"date(at / {_MICRO} + {shift}, 'unixepoch')"


def _offset(at: int, zone: tzinfo | None) -> int:
    local = datetime.fromtimestamp(at, UTC).astimezone(zone)
    return int((local.utcoffset() or timedelta()).total_seconds())


def apart(value_usd: float, billed_usd: float) -> str:
    """Write what a plan's calls are worth and what is billed, which are never added."""
    amounts = ((value_usd, "value"), (billed_usd, "billed"))
    return " + ".join(f"{usd(amount)} {name}" for amount, name in amounts if amount) or usd(0)


@dataclass
class Block:
    """A window of five hours from its first call's full hour, as plans count them."""

    start: int
    sums: Sums = field(default_factory=Sums)
    models: set[str] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + BLOCK_SECONDS

    def is_active(self, now: float) -> bool:
        return self.sums.last_us / _MICRO > now - BLOCK_SECONDS and now < self.end

    @property
    def amounts(self) -> tuple[float, float, float]:
        """Return tokens, dollars of value and dollars billed."""
        return self.sums.total_tokens, self.sums.value_usd, self.sums.billed_usd

    def rates(self, now: float) -> list[float]:
        """Return the amounts per minute since the first call."""
        minutes = max(1.0, (min(now, self.end) - self.sums.first_us / _MICRO) / 60)
        return [amount / minutes for amount in self.amounts]

    def projected(self, now: float) -> list[float]:
        """Return the amounts at the window's end, if it goes on like this."""
        left = max(0.0, self.end - now) / 60
        both = zip(self.amounts, self.rates(now), strict=True)
        return [amount + rate * left for amount, rate in both]


_OF_BLOCKS: Final = """
SELECT at, model, is_metered, is_subagent, max(0, prompt - cached - written), cached, written,
    completion, reasoning, searches, CASE WHEN usd >= 0 THEN usd ELSE 0 END,
    usd < 0 OR usd IS NULL
FROM calls WHERE {where} ORDER BY at
"""


def find_blocks(ledger: Ledger, choice: Choice) -> list[Block]:
    """Return the five-hour windows of an agent's calls, oldest first."""
    where, values = choice.where()
    blocks: list[Block] = []
    last = 0
    for at, model, metered, subagent, *sums in ledger.database.execute(
        _OF_BLOCKS.format(where=where), values
    ):
        second = at // _MICRO
        if not blocks or second >= blocks[-1].end or second - last > BLOCK_SECONDS:
            blocks.append(Block(second - second % 3600))
        blocks[-1].sums.add(metered, subagent, [1, *sums, at, at])
        blocks[-1].models.add(model)
        last = second
    return blocks


@dataclass(frozen=True)
class Window:
    """How much of a plan's window was used, and at most in the windows that the ledger has."""

    agent: str
    minutes: int
    resets_at: int
    used: float
    plan: str
    at: int
    peak: float
    windows: int

    @property
    def name(self) -> str:
        if self.minutes == 7 * 24 * 60:
            return "weekly"
        hours, minutes = divmod(self.minutes, 60)
        return f"{self.minutes}-minute" if minutes else f"{hours}-hour"


_WINDOWS: Final = """
SELECT agent, minutes, resets_at, used, plan, at, max(peak) OVER of_kind, count(*) OVER of_kind,
    row_number() OVER (PARTITION BY agent, minutes ORDER BY at DESC, resets_at DESC)
FROM limits WINDOW of_kind AS (PARTITION BY agent, minutes) ORDER BY agent, minutes
"""


def find_windows(ledger: Ledger) -> list[Window]:
    """Return the latest window of each kind that an agent reported."""
    return [Window(*row[:8]) for row in ledger.database.execute(_WINDOWS) if row[8] == 1]
