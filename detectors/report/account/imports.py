"""The audits of some imports, and what each adds to its account's spend."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from itertools import compress
from typing import Self, cast

import msgspec

from detectors.contract import DailySpend, name_prices, read_assumptions
from detectors.frames import UsageLog
from detectors.prices.book import PriceBook
from detectors.prices.updates import digest_rates
from detectors.report import audit_many
from detectors.report.account.daily_spend import sum_spend
from detectors.report.account.zones import digest_zone, is_zone
from detectors.report.result.document import Report
from detectors.rules import Thresholds


class Terms(msgspec.Struct, frozen=True, eq=False):
    """What the audits of an account depend on; `list_prices` are those without its own terms.

    Its spend is summed by the days of `zone`, if there is one, beside those in UTC.
    """

    prices: PriceBook
    list_prices: PriceBook | None
    thresholds: Thresholds
    key: str = ""  # equal keys mean equal prices and days
    zone: str = ""

    @classmethod
    def of(
        cls, book: PriceBook, price_terms: str, assumptions: Mapping[str, float], zone: str = ""
    ) -> Self:
        """Return the terms of an account: its price terms as TOML, and its assumptions.

        Prices that can't be applied are excluded, and its reports say so. A zone that this machine
        doesn't know isn't in the key, either.
        """
        zone = zone if is_zone(zone) else ""
        has_terms = bool(price_terms.strip())
        return cls(
            prices=book.with_stored_toml(price_terms) if has_terms else book,
            list_prices=book if has_terms else None,
            thresholds=Thresholds(**read_assumptions(assumptions)),
            key=name_prices(book.version, price_terms, zone),
            zone=zone,
        )

    def digest(self, models: Iterable[tuple[str, str]], first_day: date, last_day: date) -> str:
        """Digest the rates of these models on some days in UTC, with the zone and its rules.

        Equal digests mean equal spend by day.
        """
        books, names = (self.prices, self.list_prices or self.prices), set(models)
        first = datetime.combine(first_day, time(), UTC)
        last = datetime.combine(last_day, time.max, UTC)
        rates = "".join(digest_rates(book, names, first, last) for book in books)
        return rates + (digest_zone(self.zone, first_day, last_day) if self.zone else "")


class Import(msgspec.Struct, frozen=True):
    """The report of an import, the days of its calls in UTC, and its spend on them."""

    report: Report
    first_day: date | None
    last_day: date | None
    spend: Sequence[DailySpend]
    priced_with: str


def audit_imports(logs: Sequence[UsageLog], terms: Sequence[Terms]) -> list[Import]:
    """Audit small logs together, each as if it were alone, and sum their spend by day.

    Parameters
    ----------
    logs : sequence of UsageLog
        The calls of each import. Calls that are the same count in the spend until the files of the
        account's calls are merged.
    terms : sequence of Terms
        The terms of each log. Logs with the same object share the planning of their queries.

    Returns
    -------
    list of Import
        In the order of the logs.

    Raises
    ------
    TooFewValidRowsError
        Less than half of the rows are valid, in one of the logs.
    """
    found: dict[int, Import] = {}
    for each in dict.fromkeys(terms):
        is_same = [each is other for other in terms]
        own = list(compress(logs, is_same))
        reports = audit_many(own, prices=each.prices, thresholds=each.thresholds, keep_calls=False)
        frames = [log.frame for log in own]
        spend = sum_spend(frames, each.prices, each.list_prices, zone=each.zone)
        numbers = compress(range(len(logs)), is_same)
        for number, log, report, lines in zip(numbers, own, reports, spend, strict=True):
            days = log.frame["ts"].dt.date()
            first, last = cast(date | None, days.min()), cast(date | None, days.max())
            found[number] = Import(report, first, last, lines, each.key)
    return [found[number] for number in range(len(logs))]
