"""`run_audit`: the only module that uses both the service and the detectors. Nothing imports it.

It runs in a separate process that `service.jobs.process` forks and keeps for many audits. The
forking parent imports this module as well, so it must not import Polars before an audit runs.
"""

import gc

# What is imported stays. Looking for garbage meanwhile takes an eighth of the time.
gc.disable()

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from rq.timeouts import BaseTimeoutException
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import configure_mappers

import detectors
from detectors.errors import DetectorError, ScratchFullError, UnreadableLogError
from detectors.formats import read_stored
from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.core.telemetry.counters import ATTEMPTS, timed
from service.core.telemetry.traces import audit_spans
from service.jobs.claiming import Tools, claim_audits
from service.jobs.ending import postpone, refuse, retry_or_fail
from service.jobs.lease import HeldLeases, LeaseLostError
from service.jobs.outages import Outage, find_outage
from service.jobs.stopping import RequeueOnStop
from service.jobs.transactions import transact
from service.models.audits.audit_settings import DEFAULTS, Chosen
from service.models.audits.finding_calls import CallsSource
from service.models.audits.leases import Claim, save_valid_pct
from service.models.audits.results import Result, StoredFrame
from service.models.base import utc_now
from service.operations.call_store.account_audit import Auditors, audit_account
from service.operations.call_store.backfill import add_missing
from service.operations.call_store.compaction import Compaction
from service.operations.call_store.repricing import Pricing, reprice_files
from service.operations.findings.calls import Collect, write_finding_calls
from service.operations.price_book import load_prices
from service.operations.price_terms import find_account_terms, find_terms
from service.operations.publishing import abandon, delete_frames, finish, publish

gc.enable()

if TYPE_CHECKING:
    from detectors import PriceBook
    from detectors.frames import UsageLog
    from detectors.report.account import Import, Terms

# How Polars frees memory, which it reads when it is imported.
os.environ.setdefault("_RJEM_MALLOC_CONF", detectors.MEMORY)
# Imports of an audit that start no threads; importing genai-prices takes longer than an audit.
_SAFE_TO_INHERIT: Final = (
    "detectors.prices.book",
    "genai_prices.data",
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


def prepare() -> None:
    """Import the modules once in the forking parent, instead of again in every audit."""
    for module in _SAFE_TO_INHERIT:
        import_module(module)
    # An unknown name makes the index of all names in the installed prices.
    detectors.PriceBook().find_listing("openai", "an unknown model")
    configure_mappers()


def warm_up() -> None:
    """Make everything ready in a process that will run many audits, and keep it."""
    tools, book = Tools.keep(), None
    with suppress(SQLAlchemyError), tools.engine.connect() as connection:
        book = load_prices(connection)
    account, log = import_module("detectors.report.account"), detectors.read([_FIRST_CALL])
    account.audit_imports([log], [account.Terms.of(book or detectors.PriceBook(), "", {})])


def run_audit(audit_id: str) -> None:
    """Claim the next audits of this audit's queue and process them.

    Raise any unexpected error, after queueing the audit for a retry.
    """
    with Tools.opened() as tools:
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
            if len(claims) > 1 and _run_together(tools, claims, leases):
                left.clear()
            while left:
                claim = left.popleft()
                try:
                    outage = _run_alone(tools, claim, leases)
                    if outage is not None and outage.is_certain:
                        postpone(tools.engine, left, outage)
                        left.clear()
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


def _run_together(tools: Tools, claims: Sequence[Claim], leases: HeldLeases) -> bool:
    """Process several small audits in one frame; return False if they are to be run one by one.

    Whatever goes wrong, each audit then ends as if it had been claimed alone.
    """
    try:
        with _traced(claims):
            results = _audit_together(tools, claims)
            with timed("publish", len(claims)):
                published = transact(tools.engine, partial(publish, results=results))
    except Exception as error:
        _raise_if_late(error)
        outage = find_outage(error)
        if outage is not None and outage.is_certain:
            postpone(tools.engine, claims, outage)
            return True
        _log.warning("audits_run_alone", audits=len(claims), error_type=type(error).__name__)
        return False
    for result in results:
        try:
            finish(tools, result, published)
        except LeaseLostError:
            abandon(tools, result.claim, was_away=leases.was_away)
    return True


def _traced(claims: Sequence[Claim]) -> AbstractContextManager[None]:
    return audit_spans({claim.audit_id: claim.traceparent for claim in claims})


def _audit_together(tools: Tools, claims: Sequence[Claim]) -> list[Result]:
    """Return the reports after storing the calls as frames."""
    with timed("read", len(claims)):
        logs = [_read(tools.blobs, claim) for claim in claims]
    with timed("audit", len(claims)):
        imports = compute(claims, logs, *_find_terms(tools, claims))
    with timed("store", len(claims)), ThreadPoolExecutor(_WRITERS) as pool:
        frames = list(pool.map(partial(_store, tools.blobs), claims, logs))
    return list(map(_result, claims, imports, frames))


def compute(
    claims: Sequence[Claim],
    logs: "Sequence[UsageLog]",
    chosen: Mapping[str, Chosen],
    book: "PriceBook",
) -> "list[Import]":
    """Audit the logs of the claims, each with the settings of its account."""
    from detectors.report.account import Terms, audit_imports

    settings = [chosen.get(claim.audit_id, DEFAULTS) for claim in claims]
    terms = {
        key: Terms.of(book, each.price_terms, each.assumptions, each.time_zone)
        for key, each in {each.key: each for each in settings}.items()
    }
    return audit_imports(logs, [terms[each.key] for each in settings])


def _find_terms(tools: Tools, claims: Sequence[Claim]) -> "tuple[Mapping[str, Chosen], PriceBook]":
    audit_ids = [claim.audit_id for claim in claims]
    return transact(tools.engine, partial(find_terms, audit_ids=audit_ids))


def _run_alone(tools: Tools, claim: Claim, leases: HeldLeases) -> Outage | None:
    """Process one audit; return the outage, if one has ended the attempt."""
    engine, log = tools.engine, _log.bind(audit_id=claim.audit_id, attempt=claim.attempt)
    began = time.monotonic()
    try:
        with _traced([claim]):
            result = _audit(tools, claim, leases)
            with timed("publish"):
                published = transact(engine, partial(publish, results=[result]))
        finish(tools, result, published)
    except LeaseLostError:
        abandon(tools, claim, was_away=leases.was_away)
    except Exception as error:
        outage = find_outage(error)  # which a detector's error may hide
        if outage is not None and outage.excuses(claim.outages):
            postpone(engine, [claim], outage)
            return outage
        seconds = time.monotonic() - began
        # Scratch files may fit at the next attempt, when other audits have ended.
        is_full = isinstance(error, ScratchFullError)
        if isinstance(error, DetectorError) and not is_full:
            ATTEMPTS.labels("refused").inc()
            log.info("audit_refused", error_type=type(error).__name__)
            refuse(engine, claim, str(error), seconds)
            return None
        ATTEMPTS.labels("broken").inc()
        reason = str(error) if is_full else ""
        if retry_or_fail(engine, claim, tools.config.max_starts, seconds, reason):
            delete_frames(tools.blobs, [claim.frame_key])
        raise
    return None


def _audit(tools: Tools, claim: Claim, leases: HeldLeases) -> Result:
    """Return the report after storing its calls as a frame."""
    if claim.window_days is not None:
        library, terms, compaction = _open_account(tools, claim.account_id)

        def go_on(done: int, total: int) -> None:
            leases.check(claim)
            tools.queues.show_progress(claim.audit_id, done, total)

        # The account's files are audited here, and on Spark if it is configured.
        config = tools.config
        spark = library.SparkWindows(terms, config.spark_remote, config.spark_master)
        auditors = Auditors(
            here=partial(library.audit_window, terms=terms, progress=go_on),
            most_here=config.account_polars_calls,
            on_spark=partial(spark.audit, progress=go_on) if spark.remote or spark.master else None,
        )
        window = audit_account(compaction, tools.blobs, claim.window_days, auditors, now=utc_now())
        return Result(claim, window.report, window=window)
    with timed("read"):
        log = _read(tools.blobs, claim)
    save = partial(save_valid_pct, claim=claim, valid_pct=log.valid_pct)
    if not transact(tools.engine, save, is_durable=False):
        raise LeaseLostError
    with timed("audit"):
        (own,) = compute([claim], [log], *_find_terms(tools, [claim]))
    leases.check(claim)
    with timed("store"):
        return _result(claim, own, _store(tools.blobs, claim, log))


def _result(claim: Claim, own: "Import", frame: StoredFrame) -> Result:
    days = (own.first_day, own.last_day)
    return Result(claim, own.report, frame, *days, own.spend, own.priced_with)


def _store(blobs: BlobStore, claim: Claim, log: "UsageLog") -> StoredFrame:
    """Store the calls as a frame."""
    # Importing Polars starts threads, which the forking parent must not have.
    from detectors.frames import write_log

    file = BytesIO()
    write_log(log, file)
    content = file.getvalue()
    blobs.put(claim.frame_key, content)
    return StoredFrame(log.frame.height, len(content), sha256(content).digest())


def _read(blobs: BlobStore, claim: Claim) -> "UsageLog":
    """Read the stored records or, if they were purged, the frame of an earlier attempt."""
    from detectors.frames import from_chunks, read_log

    if not claim.is_raw_purged:
        with blobs.open(claim.blob_key) as file:
            return from_chunks(read_stored(file)).received(claim.received_at)
    if claim.published_frame_key is None:
        raise UnreadableLogError("the stored records were deleted before they were audited")
    with blobs.open(claim.published_frame_key) as file:
        return read_log(file).received(claim.received_at)


def _open_account(tools: Tools, account_id: str) -> "tuple[Any, Terms, Compaction]":
    library = import_module("detectors.report.account")
    chosen, book = transact(tools.engine, partial(find_account_terms, account_id=account_id))
    terms = library.Terms.of(book, chosen.price_terms, chosen.assumptions, chosen.time_zone)
    merge = partial(library.merge_stored, terms=terms)
    both = (merge, library.find_repeated_calls)
    return library, terms, Compaction(tools.engine, tools.blobs, account_id, *both)


def compact_calls(account_id: str) -> None:
    """Add what is missing in an account's call store, merge its files, and reprice their spend."""
    with Tools.opened() as tools:
        library, terms, compaction = _open_account(tools, account_id)
        add_missing(tools, account_id, partial(library.read_import, terms=terms))
        compaction.run()
        reprice_files(tools, account_id, Pricing(terms, partial(library.sum_stored, terms=terms)))


def write_calls(name: str) -> None:
    """Write the calls behind a finding, named `<audit ID>/<finding ID>.<format>`, as a blob."""
    # Importing Polars starts threads, which the forking parent must not have.
    from detectors.report.result.calls import write_calls as print_calls

    write_finding_calls(name, _audit_again, print_calls)


def _audit_again(tools: Tools, audit_id: str, found: CallsSource, collect: Collect) -> Any:
    """Audit calls with the prices and settings of today, and return what is collected of them."""
    from detectors.frames import read_log

    if found.window_days is not None:
        library, terms, compaction = _open_account(tools, found.account_id)

        def audit(files: Any, window: Any) -> Any:
            return collect(library.audit_window(files, window, terms, keep_calls=True).report)

        auditors = Auditors(here=audit, most_here=tools.config.account_polars_calls, on_spark=None)
        days, now = found.window_days, utc_now()
        return audit_account(compaction, tools.blobs, days, auditors, now=now)
    library = import_module("detectors.report.account")
    settings, book = transact(tools.engine, partial(find_terms, audit_ids=[audit_id]))
    chosen = settings.get(audit_id, DEFAULTS)
    own = library.Terms.of(book, chosen.price_terms, chosen.assumptions)
    with tools.blobs.open(found.frame_key) as file:
        log = read_log(file)
    return collect(detectors.audit(log, prices=own.prices, thresholds=own.thresholds))
