"""Compares our rates with LiteLLM's, the second public price book.

    python -m tests.detectors.prices.drift litellm-<version>.whl

Each difference needs a line in `drift.toml` that says who is right and why, and each line a
difference. `make price-drift` fetches the version that the file names.
"""

import json
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from detectors.prices import units
from detectors.prices.book import PriceBook
from detectors.prices.listing import Listing
from detectors.prices.rates import Rates

LINES: Final = Path(__file__).with_name("drift.toml")
MAP: Final = "litellm/model_prices_and_context_window_backup.json"
RIGHT: Final = ("ours", "theirs", "unclear")
_TOLERANCE: Final = 0.005  # some lists are rounded to three digits

# LiteLLM's names of the providers that both books have, and its suffixes of tiers and lengths.
_PROVIDERS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "groq": "groq",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "perplexity": "perplexity",
    "together_ai": "together",
    "vertex_ai": "google",
    "vertex_ai-anthropic_models": "google",
    "vertex_ai-language-models": "google",
    "xai": "x-ai",
    "zai": "zai",
}
_TIERS: Final = {"": "", "batch": "_batches", "flex": "_flex", "priority": "_priority"}
_LENGTHS: Final = {1_000: "", 250_000: "_above_200k_tokens", 300_000: "_above_272k_tokens"}
_RATES: Final = {
    "input_tokens": "input_cost_per_token",
    "output_tokens": "output_cost_per_token",
    "cache_read_tokens": "cache_read_input_token_cost",
    "cache_write_tokens": "cache_creation_input_token_cost",
    "cache_write_1h_tokens": "cache_creation_input_token_cost_above_1hr",
    "input_audio_tokens": "input_cost_per_audio_token",
    "output_audio_tokens": "output_cost_per_audio_token",
    "output_image_tokens": "output_cost_per_image_token",
}


class Difference(NamedTuple):
    """A rate of ours and theirs, in US dollars per million tokens."""

    provider: str
    model: str
    tier: str
    unit: str
    prompt_tokens: int
    ours: float
    theirs: float

    def __str__(self) -> str:
        where = f"{self.provider} {self.model} {self.tier or 'standard'} {self.unit}"
        length = f" beyond {self.prompt_tokens - 1:,}" if self.prompt_tokens > min(_LENGTHS) else ""
        return f"{where}{length}: ours {self.ours:g}, theirs {self.theirs:g}"


def read_map(wheel: Path) -> dict[str, Any]:
    """Return the prices in a wheel of LiteLLM."""
    with zipfile.ZipFile(wheel) as archive:
        found: dict[str, Any] = json.loads(archive.read(MAP))
    return found


def find_differences(theirs: Mapping[str, Any], at: datetime) -> Iterator[Difference]:
    """Yield each rate that both know and that differs."""
    book, seen = PriceBook(), set[tuple[str, str]]()
    for name, entry in theirs.items():
        provider = _PROVIDERS.get(entry.get("litellm_provider", ""))
        model = _model(name, provider)
        if provider is None or model is None or (provider, model) in seen:
            continue
        seen.add((provider, model))
        listing = book.find_listing(provider, model)
        if listing is not None and listing.provider == provider:
            yield from _compare(listing, model, entry, at)


def _model(name: str, provider: str | None) -> str | None:
    """Return the model's name without LiteLLM's prefix; None if it is of a region's price list."""
    prefix, _, rest = name.partition("/")
    if not rest or prefix not in {*_PROVIDERS, "vertex_ai", "bedrock"}:
        return name
    return None if provider in ("azure", "aws") and "/" in rest else rest


def _compare(
    listing: Listing, model: str, entry: Mapping[str, Any], at: datetime
) -> Iterator[Difference]:
    for tier, tier_suffix in _TIERS.items():
        for length, length_suffix in _LENGTHS.items():
            rates = listing.find_rates(at, length, tier)
            for unit, name in _RATES.items() if rates else ():
                theirs = entry.get(f"{name}{length_suffix}{tier_suffix}")
                if isinstance(theirs, int | float) and rates is not None:
                    ours = _effective(rates, unit)
                    if abs(ours - theirs) > _TOLERANCE * max(ours, theirs):
                        usd = ours * 1e6, theirs * 1e6
                        yield Difference(listing.provider, model, tier, unit, length, *usd)


def _effective(rates: Rates, unit: str) -> float:
    """Return what a token costs, if it has no rate of its own, too."""
    if rates.has(unit):
        return rates.own[unit]
    if unit == units.CACHE_WRITE_1H:
        return rates.cache_write_1h_usd
    if unit in (units.INPUT, units.OUTPUT):
        return 0.0
    return rates.output_usd if units.direction(unit) == units.OUTPUT else rates.input_usd


def explain(
    differences: Iterable[Difference], lines: list[dict[str, Any]]
) -> tuple[list[Difference], list[dict[str, Any]]]:
    """Return the differences without a line, and the lines without a difference."""
    unused, unexplained = list(lines), list[Difference]()
    for difference in differences:
        line = next((each for each in lines if _concerns(each, difference)), None)
        if line is None:
            unexplained.append(difference)
        elif line in unused:
            unused.remove(line)
    return unexplained, unused


def _concerns(line: Mapping[str, Any], difference: Difference) -> bool:
    return (
        line["provider"] == difference.provider
        and any(fnmatchcase(difference.model, each) for each in line["models"])
        and difference.tier in line.get("tiers", [difference.tier])
        and difference.unit in line.get("units", [difference.unit])
        and (not line.get("long") or difference.prompt_tokens > min(_LENGTHS))
    )


def main(wheel: Path, file: Path = LINES) -> int:
    known = tomllib.loads(file.read_text("utf-8"))
    differences = list(
        find_differences(read_map(wheel), datetime.combine(known["day"], time(12), UTC))
    )
    unexplained, unused = explain(differences, known["difference"])
    said = [f"not in {file.name}: {difference}" for difference in unexplained]
    said += [f"no longer a difference: {each['provider']} {each['models']}" for each in unused]
    said.append(
        f"{len(differences)} rates differ, {len(unexplained)} without a line that says why."
    )
    sys.stdout.write("\n".join([*said, ""]))
    return int(bool(unexplained or unused))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
