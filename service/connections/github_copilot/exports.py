"""The two reports of GitHub about Copilot: AI credits, which have tokens, and premium requests.

The rows name people, whom we don't store.
"""

from collections.abc import Iterator
from typing import Final

from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.github_copilot.reports import lines_of
from service.connections.provider import CostLine, TotalsLine, clean


def _read(cells: Cells) -> Iterator[TotalsLine]:
    if "copilot" not in f"{pick(cells, 'product')} {pick(cells, 'sku')}".lower():
        return  # Actions, storage and the like
    day, model, sku = day_of(cells, "date"), clean(cells.get("model")), clean(cells.get("sku"))
    project = clean(pick(cells, "cost_center_name", "organization"))
    if not model:
        net = usd_of(cells, "net_amount")
        yield CostLine(bucket=day, project_id=project, line_item=sku, kind="seats", amount=net)
        return
    read, cached = count_of(cells, "input"), count_of(cells, "cache_read")
    written = count_of(cells, "cache_write")
    yield from lines_of(
        day,
        sku=sku,
        model=model,
        gross=usd_of(cells, "gross_amount"),
        discount=usd_of(cells, "discount_amount"),
        project=project,
        requests=count_of(cells, "quantity") if "request" in pick(cells, "unit_type") else 0,
        # Whether input has the cached tokens isn't documented: it has, unless they are more.
        prompt=read if cached + written <= read else read + cached + written,
        cached=cached,
        written=written,
        completion=count_of(cells, "output"),
    )


EXPORTS: Final = (
    Export(
        provider="github-copilot",
        name="credits_by_hand",
        what="GitHub's report of AI credits",
        signs=signs("date,sku,model,gross_amount,net_amount,input,output"),
        read=_read,
    ),
    Export(
        provider="github-copilot",
        name="requests_by_hand",
        what="GitHub's report of premium requests",
        signs=signs("date,sku,quantity,gross_amount,net_amount"),
        read=_read,
    ),
)
