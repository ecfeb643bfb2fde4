"""What Google Cloud's model services cost, by the billing export in BigQuery, as lines.

The export names SKUs and no model that calls would name, and counts no tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from service.connections.focus import MODELS, kind_of
from service.connections.google.client import GoogleClient
from service.connections.provider import (
    COSTS,
    CREDIT,
    DAY,
    TAX,
    Asking,
    CostLine,
    Name,
    Page,
    Provider,
    Report,
    Sight,
    Window,
    clean,
)

_LOOK_BACK: Final = 30 * DAY
_KINDS: Final = {"tax": TAX, "adjustment": CREDIT}
# An invoice's month ends at midnight in California, and late usage is on the next invoice. A row
# stays in the month of its invoice, so that each month's sum is the invoice's. Nothing is exported
# before it was used, so older partitions have nothing of these days.
_FROM: Final = """
FROM (
  SELECT
    exported.*,
    LEAST(GREATEST(DATE(usage_start_time), month), LAST_DAY(month, MONTH)) AS day,
    (SELECT SUM(CAST(credit.amount AS NUMERIC)) FROM UNNEST(credits) AS credit) AS credited
  FROM (
    SELECT *, PARSE_DATE('%Y%m', invoice.month) AS month
    FROM {table}
    WHERE _PARTITIONTIME >= TIMESTAMP(@first)
      AND REGEXP_CONTAINS(CONCAT(service.description, ' ', sku.description), @models)
  ) AS exported
)
WHERE day >= @first AND day < @last
"""
_COSTS: Final = f"""
SELECT
  day,
  project.id AS project,
  service.description AS service,
  sku.description AS sku,
  cost_type AS type,
  currency,
  SUM(CAST(cost AS NUMERIC)) AS cost,
  SUM(credited) AS credits,
  IF(LOGICAL_AND(cost_at_list IS NOT NULL), SUM(CAST(cost_at_list AS NUMERIC)), NULL) AS list
{_FROM}
GROUP BY 1, 2, 3, 4, 5, 6
ORDER BY 1, 2, 3, 4, 5, 6
"""
_NAMES: Final = f"SELECT DISTINCT project.id AS id, project.name AS name {_FROM}"

REPORTS: Final = (
    Report(
        name="costs",
        kind=COSTS,
        path="/queries",
        grouping=("project", "service", "sku"),
        most_buckets=90,
        every=DAY,
    ),
)


class Google(Provider):
    name = "google"
    title = "Google Cloud"
    base_url = "https://bigquery.googleapis.com/bigquery/v2"
    key_prefix = ""
    key_page = "https://console.cloud.google.com/iam-admin/serviceaccounts"
    key_words = (
        "the JSON key of a service account that may read the billing export in BigQuery, of the "
        "project that has the export"
    )
    key_is_file = True
    reports: Sequence[Report] = REPORTS

    def open(self, key: str, base_url: str) -> Asking:
        return GoogleClient(self, key, base_url)

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        return _query(client, _COSTS, window.first, window.last or datetime.now(UTC) + DAY)

    def read_page(self, report: Report, body: Any) -> Page:
        return Page.of(_read(body))

    def look(self, client: Any, now: datetime) -> Sight:
        found = list(_read(_query(client, _COSTS, now - _LOOK_BACK, now + DAY)))
        projects = {line.project_id for line in found}
        first = min((line.bucket for line in found), default=None)
        return Sight("", len(projects), first, identity=[*map(str, client.find_tables())])

    def list_names(self, client: Asking) -> Iterator[Name]:
        now = datetime.now(UTC)
        for row in _rows(_query(client, _NAMES, now - _LOOK_BACK, now + DAY)):
            if row["id"]:
                yield Name("project", clean(row["id"]), clean(row["name"]))


def _query(client: Any, query: str, first: datetime, last: datetime) -> list[Any]:
    """Return the pages of each billing account's export."""
    given = {
        "first": ("DATE", f"{first:%Y-%m-%d}"),
        "last": ("DATE", f"{last:%Y-%m-%d}"),
        "models": ("STRING", f"(?i){MODELS.pattern}"),
    }
    return [page for table in client.find_tables() for page in client.query(table, query, given)]


def _rows(pages: Sequence[Any]) -> Iterator[Mapping[str, str | None]]:
    for page in pages:
        names = [field["name"] for field in page["schema"]["fields"]]
        for row in page.get("rows", ()):
            yield dict(zip(names, (cell["v"] for cell in row["f"]), strict=True))


def _read(pages: Sequence[Any]) -> Iterator[CostLine]:
    for row in _rows(pages):
        item = f"{row['service']}: {row['sku']}"
        shared: dict[str, Any] = {
            "bucket": datetime.fromisoformat(str(row["day"])).replace(tzinfo=UTC),
            "project_id": clean(row["project"]),
            "line_item": clean(item),
            "currency": clean(row["currency"]).upper(),
        }
        listed = row["list"]
        yield CostLine(
            **shared,
            kind=_KINDS.get(str(row["type"]), kind_of(item)),
            amount=Decimal(str(row["cost"])),
            list_amount=None if listed is None else Decimal(listed),
        )
        credits = Decimal(row["credits"] or 0)
        if credits:
            yield CostLine(**shared, kind=CREDIT, amount=credits)
