"""What a provider is for the rest of the service: reports, and the lines that they become.

Counts are normalized here: `prompt_tokens` includes cached tokens and cache writes, as in our
records, whatever the provider calls input.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Protocol, Self

MAX_LABEL: Final = 200
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)

# What a report has.
USAGE, COSTS, BOTH, ACTIVITY = "usage", "costs", "both", "activity"
# What a cost is for. Tokens are explained by usage; the others are fees that tokens don't carry.
TOKENS, CREDIT, TAX, OTHER_FEE = "tokens", "credit", "tax", "other_fee"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report of a provider, always requested with the same grouping."""

    name: str
    kind: str  # USAGE, COSTS, BOTH or ACTIVITY
    path: str
    grouping: Sequence[str]
    width: timedelta = DAY
    most_buckets: int  # of one request
    every: timedelta = HOUR
    days_back: int = 90
    is_optional: bool = False  # a key without the right for it is still a working key
    span: timedelta | None = None  # of one request; a longer window is several
    by_rows: bool = False  # pages are cut between rows, and not between buckets
    instead_of: str = ""  # the report that is pulled if the key may not read this one
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """The buckets of a report to request: `last` is exclusive, None for up to the newest."""

    report: Report
    first: datetime
    last: datetime | None


@dataclass(frozen=True, kw_only=True)
class UsageLine:
    """What one group of a bucket used."""

    bucket: datetime
    project_id: str = ""
    key_id: str = ""
    model: str = ""
    tier: str = ""  # "" for standard
    context: str = ""
    region: str = ""
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    units: Mapping[str, int] = field(default_factory=dict)  # named as in the price book
    # What the report itself says that these counts cost, where it leaves out a kind of them that
    # has a price of its own. Our prices are not used then.
    usd: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """What one group of a day costs, in its own currency."""

    bucket: datetime
    project_id: str = ""
    key_id: str = ""
    line_item: str = ""
    kind: str = TOKENS
    model: str = ""
    amount: Decimal
    list_amount: Decimal | None = None
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True)
class ActivityLine:
    """What one person did with a coding agent on one day, in all or with one model.

    `person` is an e-mail address, or the name of a key. It is never stored as it is. A line has
    either counts of work or, with a model, tokens and what the provider thinks that they cost:
    an estimate, which no bill has where a plan includes it.
    """

    bucket: datetime
    person: str
    plan: str = ""  # "api" or "subscription"
    terminal: str = ""
    model: str = ""
    sessions: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    commits: int = 0
    pull_requests: int = 0
    accepted: int = 0  # changes that the agent proposed
    rejected: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    estimated_usd: Decimal = Decimal(0)


TotalsLine = UsageLine | CostLine
Line = TotalsLine | ActivityLine


@dataclass(frozen=True)
class Name:
    """What people call a project or a key. `parent_id` is the project of a key."""

    kind: str  # "project" or "key"
    id: str
    name: str
    parent_id: str = ""
    is_active: bool = True  # False for a key that no longer works


@dataclass(frozen=True)
class Sight:
    """What a key can see, as the page says after connecting.

    `identity` has IDs that no other organization has, such as its own or those of its projects: two
    connections that share one would count everything twice.
    """

    organization: str
    projects: int
    first_cost: datetime | None
    missing: Sequence[str] = ()  # reports that this key may not read
    identity: Sequence[str] = ()


class Asking(Protocol):
    """What requests something of a provider: `service.connections.client.Client`, or its like.

    `requests` counts them. Whatever fails is raised as a `ConnectionFailedError`.
    """

    requests: int

    def get(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any: ...

    def post(self, path: str, body: Any) -> Any: ...

    def close(self) -> None: ...


class Provider(Protocol):
    """A provider's folder hands one of these out as `PROVIDER`: a subclass, for the defaults."""

    name: str  # as in the records of calls
    title: str
    base_url: str
    key_prefix: str
    key_page: str  # where a person makes such a key
    key_words: str  # which key, in half a sentence
    key_is_file: bool = False  # a JSON file, with spaces and line breaks
    pause_seconds: float = 0.0  # at least between two pulls of a connection
    unbilled_tiers: Sequence[str] = ()  # tiers that the cost report leaves out
    # How it answers for times without anything, beside no buckets.
    empty_statuses: frozenset[int] = frozenset()
    # Whether its usage comes with dollars of its own, which our prices don't replace: it lacks a
    # kind of tokens that has a price, or it isn't billed by tokens.
    prices_usage: bool = False

    @property
    def reports(self) -> Sequence[Report]: ...

    def headers(self, key: str) -> Mapping[str, str]:
        return {}

    def parameters(self, window: Window, page: str | None) -> Sequence[tuple[str, str]]:
        """Return the query of a window's page; all but the page is the same for each."""
        return ()

    def read_page(self, report: Report, body: Any) -> "Page": ...

    def look(self, client: Asking, now: datetime) -> Sight:
        """Try a key with read-only calls; raise `ConnectionFailedError` if it doesn't work."""

    def list_names(self, client: Asking) -> Iterator[Name]:
        return iter(())

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        """Return the body of a window's page."""
        report = window.report
        return client.get(report.path, self.parameters(window, page), report.headers)

    def open(self, key: str, base_url: str) -> Asking | None:
        """Return what makes the requests, if plain HTTP doesn't."""
        return None


@dataclass(frozen=True)
class Page:
    """One page of a report: the lines of each bucket, and the token of the next page."""

    buckets: Mapping[datetime, Sequence[Line]]
    next_page: str | None

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Self:
        """Return the only page of a window."""
        buckets: dict[datetime, list[Line]] = defaultdict(list)
        for line in lines:
            buckets[line.bucket].append(line)
        return cls(buckets, None)


def clean(text: Any) -> str:
    """Return a provider's label as we store it: no control characters, at most 200 long."""
    shown = "".join(char if char.isprintable() else " " for char in str(text or ""))
    return " ".join(shown.split())[:MAX_LABEL]
