"""The parts of a bill in words, the same on the page, in the terminal and in the API."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from detectors.wording.figures import percent, usd
from detectors.wording.labels import inert
from service.connections import list_providers
from service.connections.provider import CREDIT, TAX, TOKENS
from service.operations.connections.agent_totals import AgentMonth
from service.operations.connections.reconciliation import (
    BEYOND,
    CORRECTION,
    CREDITS,
    DISCOUNT,
    NOT_SENT,
    PENDING,
    ROUNDING,
    TAXES,
    UNBILLED,
    UNEXPLAINED,
    UNPRICED,
    VALUATION,
    Part,
    Reconciliation,
)
from service.operations.connections.totals import (
    BATCH,
    OLD_MODEL,
    UNCACHED,
    UNREAD_WRITES,
    UNUSED,
    TotalsFinding,
)

# By kind of part: the name, and what it is.
PARTS: Final[Mapping[str, tuple[str, str]]] = {
    NOT_SENT: ("Not sent", "Usage that the provider reports and no call of yours covers."),
    BEYOND: (
        "Counted beyond the report",
        "Calls that you sent and the provider doesn't report as used.",
    ),
    VALUATION: (
        "Prices of calls",
        "The same tokens at other list prices: tiers or regions that your calls don't name.",
    ),
    UNBILLED: (
        "Tiers without cost",
        "Usage of tiers that the provider's cost report leaves out, at list price.",
    ),
    PENDING: (
        "Not billed yet",
        "Usage of days whose costs the provider hasn't reported yet, or only in part.",
    ),
    DISCOUNT: ("Discount", "What you pay less than list price."),
    "web_search": ("Web search", "A fee per search, which tokens don't carry."),
    "file_search": ("File search", "A fee per search, which tokens don't carry."),
    "code_execution": ("Code execution", "A fee for containers, which tokens don't carry."),
    "storage": ("Storage", "A fee for stored files, which tokens don't carry."),
    "seats": ("Seats", "A fee per person, which tokens don't carry."),
    "other_fee": ("Other fees", "A fee of another kind, which names no model."),
    CREDITS: ("Credits", "Credits and refunds."),
    TAXES: ("Taxes", "Taxes on the bill."),
    UNPRICED: ("Models without a price", "Billed models that our price list doesn't have."),
    CORRECTION: (
        "Later corrections",
        "What the provider changed after the month was locked, 10 days after its end.",
    ),
    ROUNDING: ("Rounding", "Half a cent at most for each line of the bill."),
    UNEXPLAINED: ("Unexplained", "What none of the other parts explains."),
}
# Of findings of totals: what to do, and why.
FINDINGS: Final[Mapping[str, tuple[str, str]]] = {
    OLD_MODEL: (
        "Replace {model} with {better}",
        "Its provider has replaced this model with a cheaper one. The same tokens cost less there; "
        "test the answers first.",
    ),
    UNCACHED: (
        "Cache the prompts of {key}",
        "{share} of its prompt tokens are read from the cache; {usual} is usual for {model} in "
        "your organization.",
    ),
    UNREAD_WRITES: (
        "Stop {key} from writing to the cache",
        "Its cache writes cost more than the reads save.",
    ),
    BATCH: (
        "Move {key} to the batch tier",
        "It works steadily around the clock, so it may not need answers right away.",
    ),
    UNUSED: ("Revoke {key}", "This key has used nothing in 30 days."),
}
ORDER: Final = tuple(PARTS)
_SHOWN: Final = 3
_PLURAL: Final = frozenset({"seats", "other_fee"})


def name_part(kind: str) -> str:
    return PARTS[kind][0] if kind in PARTS else kind.replace("_", " ").capitalize()


def name_line(key: str) -> str:
    """Return the name of a line of models and fees, whose key is a model or a kind of cost."""
    kind = {CREDIT: CREDITS, TAX: TAXES}.get(key, key)
    if kind in PARTS:
        return name_part(kind)
    return "No model" if key in ("", TOKENS) else key


def describe_part(kind: str) -> str:
    return PARTS[kind][1] if kind in PARTS else "A fee, which tokens don't carry."


def name_provider(name: str) -> str:
    known = list_providers().get(name)
    return known.title if known else name


def name_project(project_id: str, name: str) -> str:
    """Return a project's name, which is somebody's text; a missing ID is the default one."""
    return inert(name or project_id) or "default project"


def describe_finding(found: TotalsFinding) -> tuple[str, str]:
    """Return what to do about a finding of totals, and why."""
    title, reason = FINDINGS[found.kind]
    values = {
        "model": inert(found.model),
        "better": found.better,
        "key": inert(found.key) or name_project("", found.project),
        "share": percent((found.share or 0) * 100),
        "usual": percent((found.usual or 0) * 100),
    }
    return title.format(**values), reason.format(**values)


def summarize(found: Reconciliation) -> str:
    """Return the month's line: what was billed, what calls explain, and what the rest is."""
    said = [f"{name_provider(found.provider)} billed {usd(found.billed_usd)}."]
    share = describe_share(found)
    if share:
        said.append(f"Your calls explain {usd(found.explained_usd)} ({share}).")
    if [part.project_id for part in found.projects] == [""]:  # the provider may have no projects
        said.append(f"{usd(found.projects[0].usd)} was not sent.")
        shown: Sequence[Part] = ()
    else:
        shown = found.projects[:_SHOWN]
    for part in shown:
        project = inert(part.project or part.project_id) or "the default project"
        sends_nothing = found.sent_shares.get(part.project_id, Decimal(0)) == 0
        sends = "sends nothing here" if sends_nothing else "sends only a part"
        said.append(f"{usd(part.usd)} is {project}, which {sends}.")
    more = sum((part.usd for part in found.projects[_SHOWN:]), Decimal(0))
    if more:
        count = len(found.projects) - _SHOWN
        others = "one other project" if count == 1 else f"{count} other projects"
        said.append(f"{usd(more)} is of {others}.")
    fees = [part for part in found.parts if describe_part(part.kind).startswith("A fee")]
    for part in fees:
        are = "are" if part.kind in _PLURAL else "is"
        said.append(f"{usd(part.usd)} {are} {name_part(part.kind).lower()}.")
    left = found.unexplained_usd
    said.append(f"{usd(left)} is unexplained." if left else "Nothing is unexplained.")
    return " ".join(said)


def describe_share(found: Reconciliation) -> str:
    """Return how much of the bill calls explain; a share above 100% would say nothing."""
    if found.explained_share is None:
        return ""
    if found.explained_usd > found.billed_usd:
        return "more than billed"
    return percent(float(found.explained_share * 100))


def summarize_agent(found: AgentMonth) -> str:
    """Return the month's line of an agent: what it counted itself, and how much of it we have."""
    said = f"{found.name} counted {found.own_tokens:,} tokens"
    if found.coverage is None:
        return f"{said}."
    share = percent(float(found.coverage * 100))
    return f"{said}; your calls have {found.covered_tokens:,} of them ({share})."
