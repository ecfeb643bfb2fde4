"""OpenRouter's activity as its API and its page write it: JSON or CSV with the same names."""

import re
from collections.abc import Iterator
from typing import Final

from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.provider import CostLine, TotalsLine, UsageLine, clean

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _read(cells: Cells) -> Iterator[TotalsLine]:
    cells = {_HUMP.sub("_", name).lower(): value for name, value in cells.items()}
    day, model = day_of(cells, "date"), clean(pick(cells, "model", "model_permaslug"))
    project, usd = clean(cells.get("workspace_id")), usd_of(cells, "usage")
    yield UsageLine(
        bucket=day,
        project_id=project,
        model=model,
        context=clean(cells.get("provider_name")),
        requests=count_of(cells, "requests"),
        prompt_tokens=count_of(cells, "prompt_tokens"),
        completion_tokens=count_of(cells, "completion_tokens"),
        usd=usd,
    )
    yield CostLine(bucket=day, project_id=project, line_item=model, model=model, amount=usd)


EXPORTS: Final = (
    Export(
        provider="openrouter",
        name="activity_by_hand",
        what="OpenRouter's daily activity",
        signs=signs("date,model_permaslug,requests,usage", "date,modelPermaslug,requests,usage"),
        read=_read,
    ),
)
