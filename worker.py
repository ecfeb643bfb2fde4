"""`run_audit`: the only module that uses both the service and the detectors. Nothing imports it.

It runs in a separate process that `service.jobs.process` forks and keeps for many audits. The
forking parent imports this module as well, so it must not import Polars before an audit runs.
"""

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from rq.timeouts import BaseTimeoutException
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import configure_mappers

import detectors
from detectors.contract import Report, read_assumptions
from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats import read_stored
from service.core.blobs import BlobStore
from service.core.counters import ATTEMPTS, timed
from service.core.logs import get_logger
from service.jobs.claiming import Tools, claim_audits
from service.jobs.ending import refuse, retry_or_fail
from service.jobs.lease import HeldLeases, LeaseLostError
from service.jobs.stopping import RequeueOnStop
from service.jobs.transactions import transact
from service.models.audits.audit_settings import DEFAULTS, Chosen
from service.models.audits.blob_keys import calls_key
from service.models.audits.finding_calls import find_calls_source
from service.models.audits.leases import Claim, save_valid_pct
from service.models.audits.publishing import Result
from service.operations.price_book import load_prices
from service.operations.price_terms import add_terms, find_terms
from service.operations.publishing import abandon, delete_frames, finish, publish

if TYPE_CHECKING:
    from detectors import PriceBook
    from detectors.frames import UsageLog

# Imports of an audit that start no threads; importing genai-prices takes longer than an audit.
_SAFE_TO_INHERIT: Final = (
    "detectors.prices.book",
    "genai_prices.data",
    "narwhals.stable.v2",
    "psycopg2",
)
# A first audit takes several times as long as the next, so a process makes it before it is needed.
_FIRST_CALL: Final = {
    "ts": "2026-01-01T00:00:00Z",
    "provider": "openai",
    "model": "gpt-4o",
    "prompt_tokens": 1,
    "completion_tokens": 1,
}
# Storing a frame mostly waits for the disk.
_WRITERS: Final = 8

_log = get_logger(__name__)


_kept: Tools | None = None


def prepare() -> None:
    """Import the modules once in the forking parent, instead of again in every audit."""
    for module in _SAFE_TO_INHERIT:
        import_module(module)
    # An unknown name makes the index of all names in the installed prices.
    detectors.PriceBook().find_listing("openai", "an unknown model")
    configure_mappers()


def warm_up() -> None:
    """Make everything ready in a process that will run many audits, and keep it."""
    global _kept
    _kept, book = Tools.open(), None
    with suppress(SQLAlchemyError), _kept.engine.connect() as connection:
        book = load_prices(connection)
    import_module("detectors.report").audit([_FIRST_CALL], prices=book)


@contextmanager
def _tools() -> Iterator[Tools]:
    if _kept is not None:
        yield _kept
        return
    tools = Tools.open()
    try:
        yield tools
    finally:
        tools.engine.dispose()


def run_audit(audit_id: str) -> None:
    """Claim the next audits of this audit's queue and process them.

    Raise any unexpected error, after queueing the audit for a retry.
    """
    with _tools() as tools:
        claims = claim_audits(tools, audit_id)
        if claims:
            _run(tools, claims)
        else:
            _log.info("audit_not_claimed", audit_id=audit_id)


def _run(tools: Tools, claims: Sequence[Claim]) -> None:
    """Process the claimed audits; raise the first unexpected error after the last audit."""
    left, errors = deque(claims), list[Exception]()
    with (
        HeldLeases(tools.engine, claims, tools.config.lease_seconds) as leases,
        RequeueOnStop(tools.config, tools.engine, claims),
    ):
        try:
            if len(claims) > 1 and _run_together(tools, claims):
                left.clear()
            while left:
                claim = left.popleft()
                try:
                    _run_alone(tools, claim, leases)
                except Exception as error:
                    _raise_if_late(error)
                    if errors:  # the end of the job logs the first
                        _log.error("job_failed", audit_id=claim.audit_id, exc_info=error)
                    errors.append(error)
        except BaseTimeoutException:
            for claim in left:
                retry_or_fail(tools.engine, claim, tools.config.max_starts, 0.0)
            raise
    if errors:
        raise errors[0]


def _raise_if_late(error: Exception) -> None:
    """Raise the error that ends a job at its time limit, whatever it was doing."""
    if isinstance(error, BaseTimeoutException):
        raise error


def _run_together(tools: Tools, claims: Sequence[Claim]) -> bool:
    """Process several small audits in one frame; return False if they are to be run one by one.

    Whatever goes wrong, each audit then ends as if it had been claimed alone.
    """
    try:
        results = _audit_together(tools, claims)
        with timed("publish", len(claims)):
            published = transact(tools.engine, partial(publish, results=results))
    except Exception as error:
        _raise_if_late(error)
        _log.warning("audits_run_alone", audits=len(claims), error_type=type(error).__name__)
        return False
    for result in results:
        finish(tools, result, published)
    return True


def _audit_together(tools: Tools, claims: Sequence[Claim]) -> list[Result]:
    """Return the reports after storing the calls as frames."""
    with timed("read", len(claims)):
        logs = [_read(tools.blobs, claim) for claim in claims]
    with timed("audit", len(claims)):
        reports = compute(claims, logs, *_find_terms(tools, claims))
    with timed("store", len(claims)), ThreadPoolExecutor(_WRITERS) as pool:
        sizes = list(pool.map(partial(_store, tools.blobs), claims, logs))
    return [Result(*each) for each in zip(claims, reports, sizes, strict=True)]


def compute(
    claims: Sequence[Claim],
    logs: "Sequence[UsageLog]",
    chosen: Mapping[str, Chosen],
    book: "PriceBook",
) -> Sequence[Report]:
    """Audit the logs of the claims, each with the settings of its account."""
    if len(claims) == 1:
        settings = chosen.get(claims[0].audit_id, DEFAULTS)
        return [detectors.audit(logs[0], keep_calls=False, **_terms(settings, book))]
    reports = dict[str, Report]()
    by_audit = {claim.audit_id: chosen.get(claim.audit_id, DEFAULTS) for claim in claims}
    for settings in {each.key: each for each in by_audit.values()}.values():
        same = [by_audit[claim.audit_id].key == settings.key for claim in claims]
        own = list(compress(logs, same))
        found = detectors.audit_many(own, keep_calls=False, **_terms(settings, book))
        ids = [claim.audit_id for claim in compress(claims, same)]
        reports |= zip(ids, found, strict=True)
    return [reports[claim.audit_id] for claim in claims]


def _find_terms(tools: Tools, claims: Sequence[Claim]) -> "tuple[Mapping[str, Chosen], PriceBook]":
    audit_ids = [claim.audit_id for claim in claims]
    return transact(tools.engine, partial(find_terms, audit_ids=audit_ids))


def _terms(chosen: Chosen, book: "PriceBook") -> dict[str, Any]:
    """Return what an audit with these settings needs beside its log."""
    return {
        "prices": add_terms(book, chosen.price_terms),
        "thresholds": detectors.Thresholds(**read_assumptions(chosen.assumptions)),
    }


def _run_alone(tools: Tools, claim: Claim, leases: HeldLeases) -> None:
    engine, log = tools.engine, _log.bind(audit_id=claim.audit_id, attempt=claim.attempt)
    began = time.monotonic()
    try:
        result = _audit(tools, claim, leases)
        with timed("publish"):
            published = transact(engine, partial(publish, results=[result]))
    except LeaseLostError:
        abandon(tools, claim)
    except DetectorError as error:
        ATTEMPTS.labels("refused").inc()
        log.info("audit_refused", error_type=type(error).__name__)
        refuse(engine, claim, str(error), time.monotonic() - began)
    except Exception:
        ATTEMPTS.labels("broken").inc()
        seconds = time.monotonic() - began
        if retry_or_fail(engine, claim, tools.config.max_starts, seconds):
            delete_frames(tools.blobs, [claim.frame_key])
        raise
    else:
        finish(tools, result, published)


def _audit(tools: Tools, claim: Claim, leases: HeldLeases) -> Result:
    """Return the report after storing its calls as a frame."""
    with timed("read"):
        log = _read(tools.blobs, claim)
    save = partial(save_valid_pct, claim=claim, valid_pct=log.valid_pct)
    if not transact(tools.engine, save, is_durable=False):
        raise LeaseLostError
    with timed("audit"):
        (report,) = compute([claim], [log], *_find_terms(tools, [claim]))
    leases.check(claim)
    with timed("store"):
        return Result(claim, report, _store(tools.blobs, claim, log))


def _store(blobs: BlobStore, claim: Claim, log: "UsageLog") -> int:
    """Store the calls as a frame; return its size in bytes."""
    # Importing Polars starts threads, which the forking parent must not have.
    from detectors.frames import write_log

    with blobs.writer(claim.frame_key) as file:
        write_log(log, file)
        return file.seek(0, os.SEEK_END)


def _read(blobs: BlobStore, claim: Claim) -> "UsageLog":
    """Read the stored records or, if they were purged, the frame of an earlier attempt."""
    from detectors.frames import from_chunks, read_log

    if not claim.is_raw_purged:
        with blobs.open(claim.blob_key) as file:
            return from_chunks(read_stored(file))
    if claim.published_frame_key is None:
        raise UnreadableLogError("the stored records were deleted before they were audited")
    with blobs.open(claim.published_frame_key) as file:
        return read_log(file)


def write_calls(name: str) -> None:
    """Write the calls behind a finding, named `<audit ID>/<finding ID>`, as a blob.

    The blob is empty if today's prices and settings give other calls than the report.
    """
    from detectors.frames import read_log
    from detectors.report.result.calls import write_calls as print_calls

    audit_id, finding_id = name.split("/")
    with _tools() as tools:
        with tools.engine.connect() as connection:
            found = find_calls_source(connection, audit_id, finding_id)
            settings, book = find_terms(connection, [audit_id])
        chosen = settings.get(audit_id, DEFAULTS)
        if found is None or found.is_purged:
            return
        with tools.blobs.open(found.frame_key) as file:
            report = detectors.audit(read_log(file), **_terms(chosen, book))
        same = [each for each in report.findings if each.id == finding_id]
        content = b""
        if same and same[0].observed_cost_impact_usd == found.observed_usd:
            content = print_calls(report.calls(finding_id)).encode("utf-8-sig")
        tools.blobs.put(calls_key(found.frame_key, finding_id), content)
