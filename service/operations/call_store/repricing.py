"""Reprice stored spend: sum it again for each file whose rates have changed, newest first.

A time zone changes like a price: its name is a part of both names of a file's prices. Each file is
one transaction. A file's calls are read only if the rates of one of its models differ, or the zone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Protocol

from detectors.contract import DailySpend
from service.core.blobs import BlobNotFoundError
from service.core.logs import get_logger
from service.jobs.claiming import Tools
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.calls.stored_prices import (
    Priced,
    begin_utc_days,
    give_utc_days,
    list_models,
    list_old_days,
    list_outdated_files,
    mark_lost,
    mark_priced,
    replace_spend,
    zone_of,
)
from service.models.watching.watches import judge_again

_log = get_logger(__name__)


class StoredPrices(Protocol):
    """The prices of an account and the zone of its days: the library's terms."""

    @property
    def key(self) -> str: ...

    @property
    def zone(self) -> str: ...

    def digest(self, models: Iterable[tuple[str, str]], first_day: date, last_day: date) -> str: ...


@dataclass(frozen=True)
class Pricing:
    """The prices of an account, and what sums a stored file at them; the worker passes both."""

    prices: StoredPrices
    sum_stored: Callable[[Any], Sequence[DailySpend]]


def reprice_files(tools: Tools, account_id: str, pricing: Pricing) -> int:
    """Sum the spend of outdated files again; return how many files were read.

    A file that is replaced in the meantime is left to its successor, which has today's prices. One
    that is live without a blob keeps its spend, by UTC day.
    """
    key, zone = pricing.prices.key, pricing.prices.zone
    query = partial(list_outdated_files, account_id=account_id, priced_with=key)
    read, lost, has_moved = 0, 0, False
    for file in transact(tools.engine, query):
        if is_stop_requested():
            break
        models = transact(tools.engine, partial(list_models, file_id=file.id))
        rates = pricing.prices.digest(models, file.first_day, file.last_day)
        priced = Priced(key, rates)
        if rates == file.rates:
            transact(tools.engine, partial(mark_priced, file_id=file.id, priced=priced))
            continue
        try:
            with tools.blobs.open(file.blob_key) as stored:
                spend = pricing.sum_stored((stored, file.import_id))
        except BlobNotFoundError as error:  # of a file that was replaced, or is lost
            if error.is_empty:
                raise
            is_lost = transact(tools.engine, partial(mark_lost, file=file, key=key, zone=zone))
            lost += is_lost
            has_moved |= is_lost and zone_of(file) != zone
            continue
        replace = partial(replace_spend, file=file, priced=priced, spend=spend)
        read += transact(tools.engine, replace)
        has_moved |= zone_of(file) != zone
    has_moved |= _give_utc_days(tools, account_id, zone)
    if lost:
        _log.warning("calls_lost", account_id=account_id, files=lost)
    if has_moved:
        transact(tools.engine, partial(judge_again, account_id=account_id))
    if read:
        _log.info("spend_repriced", account_id=account_id, files=read)
    return read


def _give_utc_days(tools: Tools, account_id: str, zone: str) -> bool:
    """Give the spend of purged calls UTC days where it has days of another zone.

    Each transaction changes some lines of a file, and another run goes on where this one stops.
    """
    has_moved = False
    query = partial(list_old_days, account_id=account_id, zone=zone)
    for file_id in transact(tools.engine, query):
        if is_stop_requested():
            break
        if transact(tools.engine, partial(begin_utc_days, file_id=file_id, zone=zone)):
            has_moved = True
            while transact(tools.engine, partial(give_utc_days, file_id=file_id)):
                if is_stop_requested():
                    return has_moved
    return has_moved
