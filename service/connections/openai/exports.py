"""The cost and usage exports of OpenAI's dashboard, as CSV or as the API's JSON.

Their columns are the fields of the API, with nested ones joined: `amount_value`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.openai.reports import COUNTS, classify, read_usage
from service.connections.provider import CostLine, Name, TotalsLine, clean

_START: Final = ("start_time", "start_time_iso")
# Which usage a file has, by a column that only this one has; the first that fits.
_KINDS: Final[Mapping[str, str]] = {
    "completions": "output_tokens",
    "images": "images",
    "audio_speeches": "characters",
    "audio_transcriptions": "seconds",
    "embeddings": "input_tokens",
}
_NUMBERS: Final = (
    *("num_model_requests", "input_tokens", "output_tokens", "input_cached_tokens"),
    *("input_cache_write_tokens", *COUNTS),
)


def _read_cost(cells: Cells) -> Iterator[TotalsLine | Name]:
    if not pick(cells, "amount_value"):
        return  # a day without costs
    line_item = clean(cells.get("line_item"))
    kind, model = classify(line_item)
    yield CostLine(
        bucket=day_of(cells, *_START),
        project_id=clean(cells.get("project_id")),
        key_id=clean(cells.get("api_key_id")),
        line_item=line_item,
        kind=kind,
        model=model,
        amount=usd_of(cells, "amount_value"),
        currency=clean(cells.get("amount_currency")).upper() or "USD",
    )
    yield from _name(cells)


def _read_usage(kind: str, cells: Cells) -> Iterator[TotalsLine | Name]:
    row = {
        **cells,
        **{name: count_of(cells, name) for name in _NUMBERS},
        "batch": pick(cells, "batch").lower() in ("true", "1"),
    }
    if any(row[name] for name in _NUMBERS):
        yield read_usage(kind, day_of(cells, *_START), row)
        yield from _name(cells)


def _name(cells: Cells) -> Iterator[Name]:
    project, name = clean(cells.get("project_id")), clean(cells.get("project_name"))
    if project and name:
        yield Name("project", project, name)


EXPORTS: Final = (
    Export(
        provider="openai",
        name="costs_by_hand",
        what="OpenAI's costs by day",
        signs=signs("start_time,amount_value"),
        read=_read_cost,
        organization=("organization_id",),
    ),
    *(
        Export(
            provider="openai",
            name=f"{kind}_by_hand",
            what=f"OpenAI's usage of {kind.replace('_', ' ')}",
            signs=signs(f"start_time,num_model_requests,{column}"),
            read=partial(_read_usage, kind),
        )
        for kind, column in _KINDS.items()
    ),
)
