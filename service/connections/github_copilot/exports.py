"""The two reports of GitHub about Copilot: AI credits, which have tokens, and premium requests.

What the plan includes is a discount in the report. Here it is a credit, so that what was used shows
and the bill stays what it is. The rows name people, whom we don't store.
"""

from collections.abc import Iterator
from typing import Final

from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.provider import CREDIT, CostLine, Line, UsageLine, clean

INCLUDED: Final = "Included in the plan"


def model_id(shown: str) -> str:
    """Return the model's ID: "Claude Opus 4.6" is claude-opus-4.6."""
    return clean(shown).lower().replace(" ", "-")


def _read(cells: Cells) -> Iterator[Line]:
    if "copilot" not in f"{pick(cells, 'product')} {pick(cells, 'sku')}".lower():
        return  # Actions, storage and the like
    day, model = day_of(cells, "date"), model_id(pick(cells, "model"))
    project = clean(pick(cells, "cost_center_name", "organization"))
    gross, discount = usd_of(cells, "gross_amount"), usd_of(cells, "discount_amount")
    item = clean(pick(cells, "sku"))
    cached, written = count_of(cells, "cache_read"), count_of(cells, "cache_write")
    read = count_of(cells, "input")
    # Whether input has the cached tokens isn't documented: it has, unless they are more.
    prompt = read if cached + written <= read else read + cached + written
    if not model:  # seats
        yield CostLine(
            bucket=day,
            project_id=project,
            line_item=item,
            kind="seats",
            amount=usd_of(cells, "net_amount"),
        )
        return
    yield UsageLine(
        bucket=day,
        project_id=project,
        model=model,
        requests=count_of(cells, "quantity") if "request" in pick(cells, "unit_type") else 0,
        prompt_tokens=prompt,
        completion_tokens=count_of(cells, "output"),
        cached_tokens=cached,
        cache_write_tokens=written,
        usd=gross,
    )
    yield CostLine(
        bucket=day, project_id=project, line_item=f"{item}: {model}", model=model, amount=gross
    )
    if discount:
        yield CostLine(
            bucket=day, project_id=project, line_item=INCLUDED, kind=CREDIT, amount=-discount
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
