"""The six rules as an analyst would write them in pandas, to measure the library against.

    python -m benchmarks.growth.six_rules_in_pandas LOG

Written from the pages in docs/detectors, with one plain function per detector. It reads JSON Lines
in the form of OpenAI's responses (`created`, `model`, `usage`) with `tag`, `declared_max_tokens`,
`prefix_hash` and `latency_ms` beside them, and prints the calls and the observed dollars of each
kind of finding that has any savings. Rates are the only thing that it takes from the library: each
model's at the time of the log's first call, for short prompts.

It finds what the library finds in such a log, dollar for dollar. It leaves out everything else:
checks of the input, other formats, one-hour cache writes, the longer prefix
hashes, session IDs, service tiers and regions, rates that change with time
or with the length of a prompt, findings without savings, low and high ends, monthly projections,
the composition of overlapping savings, evidence and the report itself.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pyarrow import json as arrow_json

from detectors.prices.book import PriceBook
from detectors.prices.model_data import cache_minimum

GROUP: Final = ["tag", "provider", "model"]
OPTIONAL: Final = ("declared_max_tokens", "prefix_hash", "latency_ms", "tag", "provider")
COUNTS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
RATES: Final = ("input_usd", "cache_read_usd", "cache_write_usd", "output_usd")
LONG_PREFIX: Final = 1_024  # tokens that a prefix hash covers
MARGIN: Final = 1e-9


def read(path: Path) -> pd.DataFrame:
    """Return the calls in time order, with their groups, rates and costs."""
    table = arrow_json.read_json(path)
    while any(str(column.type).startswith("struct") for column in table.schema):
        table = table.flatten()
    calls = table.to_pandas().drop_duplicates()
    calls.columns = [name.rpartition(".")[2] for name in calls.columns]
    for name in (*OPTIONAL, *COUNTS):
        if name not in calls:
            calls[name] = None
    for name in (*COUNTS, "declared_max_tokens"):
        calls[name] = pd.to_numeric(calls[name]).fillna(0).astype("int64")
    calls["provider"] = calls["provider"].fillna("openai")
    calls["answer"] = (calls["completion_tokens"] - calls["reasoning_tokens"]).clip(lower=0)
    calls["at"] = pd.to_numeric(calls["created"]).astype("float64")
    order = ["at", "id", "prompt_tokens", "completion_tokens", "cached_tokens"]
    calls = calls.sort_values(order, ignore_index=True)
    calls["group"] = calls.groupby(GROUP, dropna=False, sort=False).ngroup()
    calls["prefix"] = pd.factorize(calls["prefix_hash"])[0]  # -1 without a hash
    return price(calls)


def price(calls: pd.DataFrame) -> pd.DataFrame:
    """Join the rates of each model, and drop the calls without a known rate."""
    names = calls[["provider", "model"]].drop_duplicates()
    first = pd.Timestamp(calls["at"].min(), unit="s", tz="UTC").to_pydatetime()
    book, rows = PriceBook(), []
    for provider, model in names.itertuples(index=False):
        listing = book.find_listing(provider, model)
        rates = None if listing is None else listing.find_rates(first, 0)
        if listing is None or rates is None:
            continue
        row: dict[str, Any] = {"provider": provider, "model": model}
        row |= {name: getattr(rates, name) for name in RATES}
        row |= {"write_1h_usd": rates.cache_write_1h_usd}
        row |= {"has_read": rates.has("cache_read_tokens")}
        row |= {"has_1h": rates.has("cache_write_1h_tokens")}
        row |= {"minimum": cache_minimum(listing.model), "target": listing.target_kind}
        target = listing.target and listing.target.find_rates(first, 0)
        row |= {f"target_{name}": getattr(target, name, np.nan) for name in RATES}
        rows.append(row | {"window": listing.target_window or -1})
    calls = calls.merge(pd.DataFrame(rows), on=["provider", "model"], how="inner")
    calls["prompt_usd"] = _prompt_usd(calls, "")
    calls["cost_usd"] = calls["prompt_usd"] + calls["completion_tokens"] * calls["output_usd"]
    return calls


def _prompt_usd(calls: pd.DataFrame, prefix: str) -> pd.Series:
    fresh = calls["prompt_tokens"] - calls["cached_tokens"] - calls["cache_write_tokens"]
    cached_usd = calls["cached_tokens"] * calls[f"{prefix}cache_read_usd"]
    written_usd = calls["cache_write_tokens"] * calls[f"{prefix}cache_write_usd"]
    return fresh * calls[f"{prefix}input_usd"] + cached_usd + written_usd


def model_overkill(calls: pd.DataFrame) -> pd.DataFrame:
    calls = calls[calls["target"] > 0].copy()
    answers = calls.groupby("group")["answer"]
    calls["is_short"] = (answers.transform("median") <= 150) & (
        calls["group"].map(answers.quantile(0.9)) <= 400
    )
    other_usd = _prompt_usd(calls, "target_")
    other_usd += calls["completion_tokens"] * calls["target_output_usd"]
    calls["saving_usd"] = calls["cost_usd"] - other_usd
    fits = calls["prompt_tokens"] + calls["completion_tokens"] <= calls["window"]
    calls["kind"] = np.where(calls["target"] == 2, "legacy_model", "short_answers")
    counts = (calls["target"] == 2) | (calls["is_short"] & (calls["answer"] <= 400))
    return calls[(answers.transform("size") >= 5) & fits & counts & (calls["saving_usd"] > MARGIN)]


def missed_caching(calls: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([_uncached_prefix(calls), *_cache_writes(calls)])


def _uncached_prefix(calls: pd.DataFrame) -> pd.DataFrame:
    """Compare each call with the last one of the nearest earlier second that has its hash."""
    is_uncached = (calls["cached_tokens"] == 0) & (calls["cache_write_tokens"] == 0)
    could_read = is_uncached & calls["has_read"] & (calls["prefix"] >= 0)
    calls = calls[could_read & (calls["prompt_tokens"] >= calls["minimum"])].copy()
    key = ["group", "prefix"]
    calls = calls[calls.groupby(key)["at"].transform("size") >= 2]
    calls = calls.assign(second=calls["at"] // 1, number=calls.index)
    lasts = calls.drop_duplicates([*key, "second"], keep="last")
    pairs = lasts[[*key, "second"]].copy()
    columns = ["second", "number", "prompt_tokens", "completion_tokens"]
    pairs[[f"pair_{name}" for name in columns]] = lasts.groupby(key)[columns].shift(1)
    calls = calls.merge(pairs, on=[*key, "second"], how="left")
    has_pair = calls["second"] - calls["pair_second"] <= 300
    for name in columns:
        calls[f"pair_{name}"] = calls[f"pair_{name}"].where(has_pair)
    prompt, before = calls["prompt_tokens"], calls["pair_prompt_tokens"]
    grows = has_pair & (prompt >= before + calls["pair_completion_tokens"])
    shrinks = has_pair & (before >= prompt + calls["completion_tokens"])
    growth = (grows.astype(int) - shrinks.astype(int)).groupby(calls["group"]).transform("sum")
    paired = has_pair.groupby(calls["group"]).transform("sum")
    shared = np.minimum(np.minimum(prompt, before), LONG_PREFIX)
    read = shared.mask(grows & (growth >= paired / 2), before).fillna(0)
    calls["read"] = read.where(read >= calls["minimum"], 0)
    beyond = calls["read"] - calls["pair_number"].map(calls.set_index("number")["read"])
    alone = prompt.clip(upper=LONG_PREFIX)
    is_alone = ~calls["number"].isin(calls["pair_number"]) & (alone >= calls["minimum"])
    written = beyond.clip(lower=0).where(has_pair, alone.where(is_alone, 0))
    saved = calls["read"] * (calls["input_usd"] - calls["cache_read_usd"])
    calls["saving_usd"] = saved - written * (calls["cache_write_usd"] - calls["input_usd"])
    is_saved = calls.groupby(key)["saving_usd"].transform("sum") > MARGIN
    return calls[is_saved].assign(kind="uncached_prefix")


def _cache_writes(calls: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find writes that expire before they are read, and among the others those nobody reads."""
    key = ["group", "prefix"]
    stored = calls["cached_tokens"] + calls["cache_write_tokens"]
    calls = calls.assign(stored=stored)[calls["has_read"] & (stored > 0)]
    is_dear = calls["has_1h"] | (calls["cache_write_usd"] > calls["input_usd"])
    writes = ((calls["cache_write_tokens"] > 0) & is_dear).groupby([calls[name] for name in key])
    calls = calls[writes.transform("any")].copy()
    before = calls.groupby(key)[["at", "stored", "completion_tokens"]].shift(1)
    pause, written = calls["at"] - before["at"], calls["cache_write_tokens"]
    most = before["stored"] + before["completion_tokens"] + 2_048
    is_same = (calls["prefix"] >= 0) | calls["stored"].between(before["stored"], most)
    rewrites = (pause > 300) & (pause <= 3_600) & is_same
    rewritten = np.minimum(written, before["stored"]).where(rewrites, 0)
    saved = rewritten * (calls["cache_write_usd"] - calls["cache_read_usd"])
    surcharge = (written - rewritten) * (calls["write_1h_usd"] - calls["cache_write_usd"])
    calls["saving_usd"] = (saved - surcharge).where(calls["has_1h"], 0.0)
    calls["run"] = (pause > 3_600).groupby([calls[name] for name in key]).cumsum()
    expires = calls.groupby([*key, "run"])["saving_usd"].transform("sum") > MARGIN
    expired, others = calls[expires].assign(kind="short_lifetime"), calls[~expires].copy()
    lost = others["cache_write_tokens"] * (others["cache_write_usd"] - others["input_usd"])
    read = others["cached_tokens"] * (others["input_usd"] - others["cache_read_usd"])
    others["saving_usd"] = lost - read
    is_unread = others.groupby(key)["saving_usd"].transform("sum") > MARGIN
    return expired, others[is_unread].assign(kind="unread_writes")


def context_bloat(calls: pd.DataFrame) -> pd.DataFrame:
    calls = calls.copy()
    calls["bin"] = np.floor(np.log2(calls["answer"].clip(lower=1)) + MARGIN)
    bins = calls.groupby("bin").agg(
        norm=("prompt_tokens", "median"), calls=("bin", "size"), routes=("tag", "nunique")
    )
    own = calls.groupby(["group", "bin"])["prompt_tokens"]
    groups = own.agg(own_median="median", own_calls="size").join(bins, on="bin")
    groups["p90"] = own.quantile(0.9)
    large = groups[
        (groups["own_calls"] >= 10)
        & (groups["p90"] > 3 * groups["norm"] + MARGIN)
        & (groups["calls"] >= 30)
        & (groups["routes"] >= 2)
        & (groups["own_calls"] <= groups["calls"] / 2)
        & (groups["own_median"] <= groups["norm"])
    ]
    flagged = calls.join(large[["norm"]], on=["group", "bin"], how="inner")
    excess = flagged["prompt_tokens"] - flagged["norm"]
    input_usd = flagged["prompt_usd"] / flagged["prompt_tokens"]
    return flagged.assign(kind="outgrown", saving_usd=excess * input_usd / 2)[excess > 0]


def duplicate_calls(calls: pd.DataFrame) -> pd.DataFrame:
    calls = calls.assign(position=calls.groupby("group").cumcount())
    alike = calls.groupby(["group", "prefix", "prompt_tokens"])["at"].transform("size")
    hashed = calls.groupby(["group", "prefix"])["at"].transform("size")
    is_whole = (calls["prefix"] >= 0) & (calls["prompt_tokens"] <= 800) & (alike >= 0.95 * hashed)
    calls["shape"] = calls["completion_tokens"].mask(is_whole, -1)
    calls = calls[is_whole | (calls["shape"] >= 20)].copy()
    identity = ["group", "prefix", "prompt_tokens", "shape"]
    starts = ~(calls.groupby(identity)["at"].diff() <= 30)
    calls["burst"] = starts.groupby([calls[name] for name in identity]).cumsum()
    bursts = calls.groupby([*identity, "burst"])
    calls["size"] = bursts["at"].transform("size")
    first = bursts["position"].transform("min")
    span = bursts["position"].transform("max") - first + 1
    calls["is_repeat"] = calls["position"] != first
    calls["is_equal"] = calls["completion_tokens"] == bursts["completion_tokens"].transform("first")
    is_dense = (calls["shape"] < 0) | (2 * calls["size"] >= span)
    calls = calls[(calls["size"] >= 3) & is_dense]
    repeats = calls[calls["is_repeat"]].copy()
    repeats["kind"] = np.where(repeats["shape"] < 0, "same_prompt", "same_shape")
    is_sampled = (repeats["shape"] < 0) & repeats["group"].isin(_sampling_groups(calls))
    return repeats.assign(saving_usd=repeats["cost_usd"].mask(is_sampled, 0.0))


def _sampling_groups(bursts: pd.DataFrame) -> pd.Index:
    """Return the groups that ask one prompt several times on purpose."""
    prompts = bursts[bursts["shape"] < 0]
    firsts = prompts[~prompts["is_repeat"]].groupby("group")["size"]
    usual = firsts.agg(lambda sizes: sizes.value_counts().iloc[0])
    equal = prompts[prompts["is_repeat"]].groupby("group")["is_equal"].mean()
    many = firsts.size()
    return many.index[(many >= 3) & (usual >= 0.9 * many) & (equal.reindex(many.index) < 0.5)]


def max_tokens_misfit(calls: pd.DataFrame) -> pd.DataFrame:
    later = ["at", "prompt_tokens"]
    by_group = calls.groupby("group")[later].shift(-1)
    by_hash = calls.groupby(["group", "prefix"])[later].shift(-1)
    after = by_hash.where(calls["prefix"] >= 0, by_group)
    prompt, completion = calls["prompt_tokens"], calls["completion_tokens"]
    again = (after["at"] - calls["at"] <= 120) & (after["prompt_tokens"] >= prompt)
    again &= after["prompt_tokens"] <= prompt + completion + 512
    is_thrown_away = after["prompt_tokens"] < prompt + completion / 2
    cap = calls["declared_max_tokens"]
    is_cut = (cap > 16) & (completion >= cap)
    calls = calls.assign(again=again, is_cut=is_cut)
    calls["wasted_usd"] = calls["prompt_usd"].mask(is_thrown_away, calls["cost_usd"])
    capped = calls[cap > 0]
    many = capped.groupby("group")["is_cut"].agg(["sum", "mean"])
    a = capped[capped["is_cut"]].groupby("group")["again"].mean()
    b = capped[~capped["is_cut"]].groupby("group")["again"].mean().reindex(a.index).fillna(0)
    counts = (many["sum"] >= 5) & (many["mean"] >= 0.02)
    share = ((a - b) / a)[(a - b >= 0.2 - MARGIN) & counts.reindex(a.index)].rename("share")
    cut = capped[capped["is_cut"] & capped["again"]].join(share, on="group", how="inner")
    return cut.assign(kind="truncated", saving_usd=cut["wasted_usd"] * cut["share"])


def chatty_loop(calls: pd.DataFrame) -> pd.DataFrame:
    calls = calls[calls["tag"].notna()].copy()
    calls["pause"] = calls.groupby("group")["at"].diff()
    calls = _split_sessions(calls)
    calls = calls[calls["session"].isin(_find_loops(calls))].copy()
    sizes = calls.groupby("session")["at"].transform("size")
    alike = calls.groupby(["session", "prefix"])["at"].transform("size")
    most = alike.where(calls["prefix"] >= 0, 0).groupby(calls["session"]).transform("max")
    is_flagged = (calls.groupby("session").cumcount() % 5 != 0) & (most >= sizes / 2)
    return calls[is_flagged].assign(kind="hashed", saving_usd=calls["prompt_usd"] / 2)


def _split_sessions(calls: pd.DataFrame) -> pd.DataFrame:
    """Number the sessions of each group: they end at pauses of over 15 minutes."""
    starts = ~(calls["pause"] <= 900)
    number = starts.groupby(calls["group"]).cumsum()
    calls = calls.assign(session=calls.groupby(["group", number]).ngroup())
    return calls.assign(pause=calls["pause"].where(~starts))


def _find_loops(calls: pd.DataFrame) -> pd.Index:
    """Return the sessions that look like a program waiting for one answer after another."""
    idle = calls["pause"].groupby(calls["session"]).shift(-1) - calls["latency_ms"] / 1_000
    calls = calls.assign(
        is_short=calls["answer"] <= 100,
        overlaps=calls["pause"] < 0.25,
        has_fraction=calls["at"] % 1 != 0,
        idle=idle,
    )
    sessions = calls.groupby("session").agg(
        calls=("at", "size"),
        began=("at", "min"),
        ended=("at", "max"),
        short=("is_short", "mean"),
        pause=("pause", "median"),
        overlaps=("overlaps", "sum"),
        has_fraction=("has_fraction", "any"),
        timed=("latency_ms", "count"),
        idle=("idle", "median"),
    )
    most = (sessions["calls"] - 1) * np.where(sessions["has_fraction"], 0.05, 0.3)
    is_loop = (
        (sessions["calls"] >= 10)
        & (sessions["ended"] - sessions["began"] <= 7_200)
        & (sessions["short"] >= 0.8)
        & (sessions["pause"] <= 60)
        & (sessions["overlaps"] <= most + MARGIN)
        & ((sessions["timed"] < 0.9 * sessions["calls"]) | (sessions["idle"] >= -0.25))
    )
    return sessions.index[is_loop]


RULES: Final[dict[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "d1_model_overkill": model_overkill,
    "d2_missed_caching": missed_caching,
    "d3_context_bloat": context_bloat,
    "d4_duplicate_calls": duplicate_calls,
    "d5_max_tokens_misfit": max_tokens_misfit,
    "d6_chatty_loop": chatty_loop,
}


def find_savings(path: Path) -> dict[str, dict[str, tuple[int, float]]]:
    """Return the calls and the US dollars of each detector and kind, over the whole log."""
    calls = read(path)
    found: dict[str, dict[str, tuple[int, float]]] = {}
    for detector, rule in RULES.items():
        kinds = rule(calls).groupby("kind")["saving_usd"].agg(["size", "sum"])
        found[detector] = {
            str(kind): (int(size), float(usd)) for kind, size, usd in kinds.itertuples() if usd > 0
        }
    return found


if __name__ == "__main__":
    print(json.dumps(find_savings(Path(sys.argv[1])), indent=2))
