"""What a wake-up leads to: claims of the audits that are next, and the wake-ups they make spare."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from sqlalchemy import Connection, Engine

from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_engine
from service.jobs.queues import AuditQueues, WakeUp
from service.jobs.transactions import transact
from service.models.audits.audits import ACCOUNT
from service.models.audits.leases import Claim
from service.models.audits.queue_order import ClaimLimits, claim_next, find_source

# Audits with so few records that most of their time would go into planning queries. Four of the
# largest batches take half as long together as one by one.
_AUDITS_AT_ONCE: Final = 40
_RECORDS_AT_ONCE: Final = 20_000


@dataclass(frozen=True)
class Tools:
    """The settings and the connections of a process that runs audits."""

    _kept: "ClassVar[Tools | None]" = None

    config: Config
    engine: Engine
    blobs: BlobStore
    queues: AuditQueues

    @classmethod
    def open(cls) -> Self:
        config = Config.load()
        blobs = BlobStore.from_url(config.storage_url)
        return cls(config, make_engine(config), blobs, AuditQueues.from_config(config))

    @classmethod
    def keep(cls) -> "Tools":
        """Open the connections of a process that will run many jobs."""
        Tools._kept = cls.open()
        return Tools._kept

    @classmethod
    @contextmanager
    def opened(cls) -> "Iterator[Tools]":
        """Yield the connections that are kept, or new ones for one job."""
        if cls._kept is not None:
            yield cls._kept
            return
        tools = cls.open()
        try:
            yield tools
        finally:
            tools.engine.dispose()


@dataclass(frozen=True)
class _Claimed:
    """The claims that a wake-up led to; `is_left` if its own audit still waits."""

    claims: Sequence[Claim]
    source: str
    is_left: bool


def claim_audits(tools: Tools, audit_id: str) -> Sequence[Claim]:
    """Claim the next audits of this audit's queue.

    A wake-up says that an audit waits, not that it is next: accounts take turns.
    """
    limits = ClaimLimits(
        lease_seconds=tools.config.lease_seconds,
        max_attempts=tools.config.max_starts,
        max_audits=_AUDITS_AT_ONCE,
        max_records=_RECORDS_AT_ONCE,
    )

    def claim_some(connection: Connection) -> _Claimed | None:
        found = find_source(connection, audit_id)
        if found is None:
            return None
        source, is_queued = found
        alone = replace(limits, max_audits=1) if source == ACCOUNT else limits
        claims = claim_next(connection, source, alone)
        is_own = any(claim.audit_id == audit_id for claim in claims)
        return _Claimed(claims, source, is_left=is_queued and not is_own)

    # The claim isn't durable, which saves a disk write: if a database crash undoes it, the fence
    # keeps this attempt from publishing.
    claimed = transact(tools.engine, claim_some, is_durable=False)
    if claimed is None:
        return ()
    # Drop the wake-ups of the claimed audits, but one in exchange for an audit still waiting.
    others = [
        WakeUp(claim.audit_id, claimed.source, claim.attempt)
        for claim in claimed.claims
        if claim.audit_id != audit_id
    ]
    tools.queues.drop(others[1:] if claimed.is_left else others)
    return claimed.claims
