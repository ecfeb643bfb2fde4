"""What coding agents count of their own tokens, beside the calls that an account has of them.

A machine whose agent sends metrics and no calls shows as what isn't covered, unless calls of other
machines, which send no metrics, are as many: so all calls are shown, too. Nothing of this is added
to spend.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from operator import add
from typing import Final

from sqlalchemy import Connection

from service.connections.provider import DAY
from service.models.connections.agent_totals import list_agent_totals, list_held
from service.operations.connections.coverage import NO_USD, Cell, Key, Known, find_covered
from service.operations.connections.plan import month_end

# By agent: its name, and the providers of its calls.
AGENTS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "claude-code": ("Claude Code", ("claude-code",)),
    "codex": ("Codex", ("codex",)),
    "gemini-cli": ("Gemini CLI", ("google",)),
    "copilot": ("GitHub Copilot", ("copilot", "github", "github-copilot")),
}


@dataclass
class AgentLine:
    """One day or model of an agent's month, or all of it."""

    key: str
    own_tokens: int = 0  # what the agent counted
    held_tokens: int = 0  # those of all calls on its days and of its models
    covered_tokens: int = 0  # those of the agent that are in calls, too

    @property
    def coverage(self) -> Decimal | None:
        return Decimal(self.covered_tokens) / self.own_tokens if self.own_tokens else None


@dataclass
class AgentMonth(AgentLine):
    """What an agent counted in one month, and how much of it calls cover."""

    month: date = date.min
    estimated_usd: Decimal = NO_USD  # the agent's own guess
    days: Sequence[AgentLine] = ()
    models: Sequence[AgentLine] = ()

    @property
    def name(self) -> str:
        return AGENTS[self.key][0]


def compare_agents(
    connection: Connection, account_id: str, months: Sequence[tuple[date, str]]
) -> list[AgentMonth]:
    """Compare what agents counted in these months with the account's calls."""
    if not months:
        return []
    known, compared = Known(connection, account_id), list[AgentMonth]()
    for month, agent in months:
        # With a day more on both sides: what ends after midnight may be of calls before.
        days, providers = (month - DAY, month_end(month).date()), AGENTS[agent][1]
        canonical = known.canonical(providers[0], days[1])
        cells: dict[Key, Cell] = defaultdict(Cell)
        found = AgentMonth(agent, month=month)
        for day, model, *counts, usd in list_agent_totals(connection, account_id, agent, days):
            cell = cells[day, canonical(model)]
            cell.reported = tuple(map(add, cell.reported, counts))
            found.estimated_usd += usd if days[0] < day < days[1] else 0
        for day, model, *counts in list_held(connection, account_id, providers, days):
            cell = cells[day, canonical(model)]
            cell.counted = tuple(map(add, cell.counted, counts))
        covered, _beyond = find_covered(cells)
        by_day, by_model = dict[str, AgentLine](), dict[str, AgentLine]()
        for (day, model), cell in sorted(cells.items()):
            own = _tokens(cell.reported)
            # Of days on which the agent sent no metrics, or of other months.
            if not own or day in days:
                continue
            lines = (
                found,
                by_day.setdefault(str(day), AgentLine(str(day))),
                by_model.setdefault(model, AgentLine(model)),
            )
            for line in lines:
                line.own_tokens += own
                line.held_tokens += _tokens(cell.counted)
                line.covered_tokens += _tokens(covered[day, model])
        found.days = [*by_day.values()]
        found.models = sorted(by_model.values(), key=lambda line: -line.own_tokens)
        compared.append(found)
    return compared


def _tokens(counts: Sequence[int]) -> int:
    prompt, _cached, _written, completion = counts
    return prompt + completion
