"""Read the usage object of any provider or tool: what was billed, and what we don't know.

The client, `tallystick audit`, `tallystick scrub` and the OpenTelemetry endpoint read usage with
this file: `detectors` has a link to it. `tables` has the names. Every number of an object, at any
depth, is one of them, or it is unknown: then it is returned with its path, so that a door can say
so. Texts are never kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .tables import DIALECTS, FAMILIES, PROVIDERS

MAX_COUNT = 1_000_000_000_000
TIERS = frozenset(("batch", "flex", "priority", "fast"))
# Units that a record has fields for, and those fields.
FIELDS = {
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
    "input_audio_tokens": "audio_prompt_tokens",
    "output_audio_tokens": "audio_completion_tokens",
    "input_image_tokens": "image_prompt_tokens",
    "output_image_tokens": "image_completion_tokens",
    "web_searches": "web_searches",
}
# Parts that some count apart from the whole: the usage, and whether they are of the output.
_GROUPS = (
    ("reads", "cache_read_tokens", 0),
    ("writes", "cache_write_tokens", 0),
    ("apart", "apart", 0),
    ("sounds", "input_audio_tokens", 0),
    ("images", "input_image_tokens", 0),
    ("reasoning", "output_reasoning_tokens", 1),
    ("citations", "output_citation_tokens", 1),
    ("sounds", "output_audio_tokens", 1),
    ("images", "output_image_tokens", 1),
)
_MOST_GROUPS = 5
_FEW = 2  # counts without parts: of the prompt and the answer
_LIFETIMES = frozenset(("cache_write_5m_tokens", "cache_write_1h_tokens"))
_NO_COUNTS = frozenset(("free", "part", "total"))
TIERS_OF_OTHERS = {"on_demand_flex": "flex", "on_demand_priority": "priority"}
# What providers call the tier that a call has if it asks for none.
STANDARD_TIERS = frozenset(
    (
        *("", "standard", "default", "auto", "on_demand", "standard_only"),
        *("unspecified", "service_tier_unspecified", "traffic_type_unspecified"),
    )
)
NO_TIER_NAME = r"^[^a-z]|[^a-z0-9_-]|^.{33}"
_NO_TIER_NAME = re.compile(NO_TIER_NAME, re.DOTALL)
_ANYWHERE = frozenset(("", "global", "not_available"))
_COST = {"usd": 1.0, "cents": 1e-2, "ticks": 1e-10}
_MAX_COST = 1_000_000.0
_INPUT, _OUTPUT, _TOTAL = "input_tokens", "output_tokens", "total"
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_.-]{0,63}")
_NO_NAME = "*"
_DEEPEST = 8
_MOST_UNKNOWN = 16
_MAX_LABEL = 200
_NO_MEMBERS: dict[str, Any] = {}
_RANKED = tuple(DIALECTS)
_SIGNS = {
    sign: rank
    for rank, name in reversed(list(enumerate(DIALECTS)))
    for sign in DIALECTS[name]["signs"]
}
# The text members of a usage that are read, and what for.
_TEXTS = {
    "service_tier": "tier",
    "serviceTier": "tier",
    "traffic_type": "tier",
    "trafficType": "tier",
    "speed": "speed",
    "inference_geo": "region",
    "search_context_size": "context",
}
# A request's fee depends on its search context; the one that is priced is the default.
_CONTEXTS = {"low": "", "medium": ".medium", "high": ".high"}


class Reading:
    """One billed call: counts as a record has them, and what stands beside them.

    `model` is the call's own where it is another than the answer's. `unknown` has the numbers that
    we don't know, by their paths; `is_assumed` is set where nothing says whether the input has the
    cache.
    """

    cached: int | None
    completion: int
    is_assumed: bool
    model: str | None
    parts: dict[str, int]
    prompt: int
    region: str | None
    reported_usd: float | None
    service_tier: str | None
    units: dict[str, Any]
    unknown: dict[str, Any]
    written: int | None
    __slots__ = tuple(__annotations__)

    def fields(self) -> dict[str, Any]:
        """Return the counts and parts under the names of a record's fields."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "cached_tokens": self.cached,
            "cache_write_tokens": self.written,
            **self.parts,
        }


def names_of(unknown: Mapping[str, Any]) -> str | None:
    """Return the names of unknown numbers as one label, as many as it may hold."""
    names = ""
    for name in sorted(unknown):
        if len(names) + len(name) < _MAX_LABEL:
            names += f" {name}" if names else name
    return names or (_NO_NAME if unknown else None)


def largest_of(unknown: Mapping[str, Any]) -> int | None:
    """Return the largest unknown number, as a count; what is no number has none."""
    if not unknown:
        return None
    largest = max((value for value in unknown.values() if value == value), default=0)
    return int(min(max(largest, 0), MAX_COUNT))


def reading_of(record: Any) -> Reading:
    """Return the counts that a record has as attributes."""
    reading = Reading()
    reading.prompt, reading.completion = record.prompt_tokens, record.completion_tokens
    reading.cached, reading.written = record.cached_tokens, record.cache_write_tokens
    read = [(name, getattr(record, name, None)) for name in FIELDS.values()]
    reading.parts = {name: count for name, count in read if count}
    reading.units, reading.unknown, reading.is_assumed = {}, {}, False
    reading.model = reading.service_tier = reading.region = reading.reported_usd = None
    return reading


def members_of(container: Any) -> dict[str, Any]:
    """Return the members of a model or a mapping; empty for anything else.

    No property or method is called. Older libraries keep what they do not know yet in a model's
    extra members.
    """
    if isinstance(container, dict):
        return container
    try:
        members, extra = container.__dict__, container.__pydantic_extra__
    except AttributeError:
        members, extra = getattr(container, "__dict__", None), None
    if not isinstance(members, dict):
        return _NO_MEMBERS
    return {**members, **extra} if extra and isinstance(extra, dict) else members


def count_of(value: Any) -> int | None:
    """Return the value if it is a count that the service accepts, or else None."""
    if type(value) is not int:
        if type(value) is not float or not value.is_integer():
            return None
        value = int(value)
    return value if 0 <= value <= MAX_COUNT else None


def dialect_of(members: Mapping[str, Any]) -> str | None:
    """Return the name of the dialect that a usage object is in; None if it is in none."""
    best = len(DIALECTS)
    for name in members:
        rank = _SIGNS.get(name)
        if rank is not None and rank < best:
            best = rank
    return _RANKED[best] if best < len(_RANKED) else None


def read_usage(
    usage: Any,
    *,
    provider: str = "",
    model: object = None,
    beside: Mapping[str, Any] | None = None,
    dialect: str | None = None,
    leaves_out: Iterable[str] | None = None,
    may_lack_output: bool = False,
) -> list[Reading]:
    """Return the billed calls of a usage object; none if it has no counts that we know.

    `beside` has the members of the answer around it, of which hosted tools' usage is read.
    `leaves_out` names the parts that the emitter's input and output leave out, if that is known.
    Without an output count there is no call, unless `may_lack_output`, or the total says that there
    was none.
    """
    members = members_of(usage)
    name = dialect or dialect_of(members)
    if name is None:
        return []
    found: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    _walk(members, FAMILIES[DIALECTS[name]["family"]], found, unknown, ())
    rules = DIALECTS[name]
    if "adds_up" in rules:
        _count_rest(found, unknown)
        # A total that is the source's sum over all its fields says nothing of them.
        total = found.get(_TOTAL)
        if total is not None:
            counts = (found[name] for name in found if name.endswith("_tokens") or name == "apart")
            if total == sum(count for count in counts if type(count) is int):
                del found[_TOTAL]
    if "is_billed" in rules and found.get("cache_read_tokens", 0) > found.get(_INPUT, 0):
        found.pop("cache_read_tokens", None)  # of what was read, of which not all is billed
    is_known = leaves_out is not None or "is_open" not in rules
    if leaves_out is None:
        leaves_out = PROVIDERS.get(provider) or rules["leaves_out"]
    may_lack_output = may_lack_output or "may_lack_output" in rules
    reading = _resolve(found, unknown, leaves_out, is_known, may_lack_output)
    if reading is None:
        return []
    if "fills" in rules and "output_reasoning_tokens" not in found:
        # Older libraries drop the thoughts, which the total has.
        reading.completion = max(reading.completion, (found.get(_TOTAL) or 0) - reading.prompt)
    readings = [reading]
    if members.get("iterations"):
        _add_iterations(readings, members["iterations"], model)
    if beside is not None:
        _add_tools(readings, beside, model)
    return readings


def _walk(
    members: Mapping[str, Any],
    names: Mapping[str, Any],
    found: dict[str, Any],
    unknown: dict[str, Any],
    path: tuple[Any, ...],
) -> None:
    """Add every number of an object to those that are found, or to those that are unknown."""
    for name, value in members.items():
        kind, inner = type(value), names.get(name)
        if value is None or kind is bool:
            continue
        if kind is int or kind is float:
            role = inner.get("") if type(inner) is dict else inner
            if type(role) is str and value >= 0:
                if value > found.get(role, -1):
                    found[role] = value
            elif value and role != ():
                _note(unknown, _path(path, name), value)
        elif inner != ():  # a copy of what other fields say
            _walk_within(value, inner, found, unknown, (*path, name))


def _walk_within(
    value: Any,
    inner: Any,
    found: dict[str, Any],
    unknown: dict[str, Any],
    path: tuple[Any, ...],
) -> None:
    if isinstance(value, str):
        if len(path) <= _DEEPEST and path[-1] in _TEXTS:  # an enumeration
            found[_TEXTS[path[-1]]] = value
    elif len(path) > _DEEPEST:  # what is below has no name that we know, and may have no end
        _note(unknown, _path(path[:_DEEPEST], _NO_NAME), 0)
    elif not isinstance(value, (list, tuple)):
        _walk(members_of(value), inner if type(inner) is dict else {}, found, unknown, path)
    else:  # a list, of which the numbers of the same kind are added up
        key, kinds = inner if type(inner) is tuple and inner else ("", _NO_MEMBERS)
        for item in value:
            if type(item) in (int, float):
                if item:
                    _note(unknown, _path(path[:-1], path[-1]), item)
                continue
            members = members_of(item)
            kind = members.get(key)
            kind = getattr(kind, "value", kind)
            names = kinds.get(kind.upper() if isinstance(kind, str) else "", kinds.get(""))
            own: dict[str, Any] = {}
            _walk(members, names or _NO_MEMBERS, own, unknown, path)
            for role, count in own.items():
                found[role] = count if type(count) is str else found.get(role, 0) + count


def _path(path: tuple[Any, ...], name: object) -> str:
    """Return a path of field names; a key that is none could be someone's text."""
    return ".".join(
        step if isinstance(step, str) and _NAME.fullmatch(step) else _NO_NAME
        for step in (*path, name)
    )


def _count_rest(found: dict[str, Any], unknown: dict[str, Any]) -> None:
    """Count what has `input` or `output` in its name, as the source documents."""
    for path, value in list(unknown.items()):
        count = None if "." in path else count_of(value)
        if count is not None and ("input" in path or "output" in path):
            whole = _INPUT if "input" in path else _OUTPUT
            found[whole] = (count_of(found.get(whole)) or 0) + count
            del unknown[path]


def _resolve(
    found: dict[str, Any],
    unknown: dict[str, Any],
    leaves_out: Iterable[str],
    is_known: bool,
    may_lack_output: bool,
) -> Reading | None:
    """Return the call that the numbers are; None if they are no call."""
    counts = _counts_of(found, unknown)
    prompt, completion = counts.get(_INPUT), counts.get(_OUTPUT)
    total = counts.get(_TOTAL)
    units = {key: counts[key] for key in _UNITS.intersection(counts) if counts[key]}
    if prompt is None:
        if not units:
            return None
        prompt = 0
        completion = completion or 0
    if completion is None:
        if not (may_lack_output or units or total == prompt):
            return None
        completion = 0
    reading = Reading()
    reading.is_assumed = False
    reading.prompt, reading.completion = prompt, completion
    groups = [
        (group, counts[usage], of_output)
        for group, usage, of_output in _GROUPS
        if counts.get(usage)
    ]
    if groups:
        _add_apart(reading, groups, counts, leaves_out, is_known)
    _fill(reading, counts, found, unknown)
    return reading


def _counts_of(found: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that are counts; another under a name of one is unknown."""
    counts: dict[str, Any] = {}
    for role, value in found.items():
        if type(value) is int:
            if value <= MAX_COUNT:
                counts[role] = value
            else:
                _note(unknown, role, value)
        elif type(value) is float and role not in _COST:
            count = value if role.endswith("seconds") and value <= MAX_COUNT else count_of(value)
            if count is not None:
                counts[role] = count
            elif role not in _NO_COUNTS:
                _note(unknown, role, value)
    if not _LIFETIMES.isdisjoint(counts) and not counts.get("cache_write_tokens"):
        written = counts.get("cache_write_5m_tokens", 0) + counts.get("cache_write_1h_tokens", 0)
        counts["cache_write_tokens"] = written
    # What is billed counts; where only what was read and written is said, that does.
    if "read_input" in counts:
        counts.setdefault(_INPUT, counts["read_input"])
        counts.setdefault(_OUTPUT, counts.get("read_output", 0))
    if "uncached" in counts:  # the input has all of its parts
        parts = sum(counts.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens"))
        counts[_INPUT] = max(counts.get(_INPUT, 0), counts["uncached"] + parts)
    return counts


def _note(unknown: dict[str, Any], path: str, value: Any) -> None:
    if len(unknown) < _MOST_UNKNOWN:
        unknown[path] = value


def _add_apart(
    reading: Reading,
    groups: list[tuple[str, int, int]],
    counts: dict[str, Any],
    leaves_out: Iterable[str],
    is_known: bool,
) -> None:
    """Add the parts that the input and the output leave out.

    A total that only one way of counting fits decides, then what is known of the emitter or the
    dialect. A way in which a part exceeds its whole stands only where there is no other.
    """
    usual = tuple(group in leaves_out for group, _, _ in groups)
    wholes = reading.prompt, reading.completion
    total = counts.get(_TOTAL)
    is_open = not is_known and any(group in ("reads", "writes") for group, _, _ in groups)
    best = _wholes(wholes, groups, usual)
    if total is None and not is_open and best is not None:
        reading.prompt, reading.completion = best
        return
    if best is not None and total == best[0] + best[1]:
        reading.prompt, reading.completion = best
        return
    # The possible input and output of each way to count, those like the usual first.
    ways = []
    flips = range(1 << len(groups) if len(groups) <= _MOST_GROUPS else 0)
    for bits in sorted(flips, key=lambda bits: bin(bits).count("1")):
        way = tuple(is_out ^ bool(bits >> place & 1) for place, is_out in enumerate(usual))
        found = _wholes(wholes, groups, way)
        if found is not None:
            ways.append(found)
    fitting = {each for each in ways if sum(each) == total}
    if len(fitting) == 1:
        reading.prompt, reading.completion = fitting.pop()
        return
    reading.is_assumed = is_open and len({prompt for prompt, _ in ways}) > 1
    if best is None:
        best = ways[0] if ways else _wholes(wholes, groups, usual, is_any=True)
    if best is not None:
        reading.prompt, reading.completion = best


def _wholes(
    wholes: tuple[int, int],
    groups: list[tuple[str, int, int]],
    way: tuple[bool, ...],
    *,
    is_any: bool = False,
) -> tuple[int, int] | None:
    """Return the whole input and output, with the parts beside them; None if impossible."""
    inside, outside = [0, 0], [0, 0]
    for place, (group, count, of_output) in enumerate(groups):
        if way[place]:
            outside[of_output] += count
        elif group in ("reads", "writes"):
            inside[of_output] += count
        elif count > wholes[of_output] and not is_any:
            return None
    if not is_any and (inside[0] > wholes[0] or inside[1] > wholes[1]):
        return None
    return wholes[0] + outside[0], wholes[1] + outside[1]


def _fill(
    reading: Reading, counts: dict[str, Any], found: dict[str, Any], unknown: dict[str, Any]
) -> None:
    """Set what stands beside the counts; a part is at most what its whole leaves for it."""
    prompt, completion = reading.prompt, reading.completion
    cached, written = counts.get("cache_read_tokens"), counts.get("cache_write_tokens")
    reading.cached, reading.written = cached, written
    reading.unknown = unknown
    reading.model = None
    reading.parts = _parts_of(counts, prompt, completion) if len(counts) > _FEW else {}
    # Units that no field of a record has; one within another is at most its whole.
    reading.units = {}
    for unit in _UNITS.intersection(counts):
        count, fields = counts[unit], reading.fields()
        for whole, others in _WITHIN.get(unit, ()):
            beside = sum(fields.get(each) or reading.units.get(each) or 0 for each in others)
            count = min(count, (fields.get(whole) or 0) - beside)
        if count > 0:
            reading.units[unit] = count
    tier, speed = found.get("tier"), found.get("speed")
    if tier is not None or speed is not None:
        reading.service_tier = tier_of(tier, speed)
        for name in filter(None, (unknown_tier(tier), unknown_tier(speed))):
            _note(unknown, name, 0)
    else:
        reading.service_tier = None
    context = found.get("context")
    if context is not None and (size := _CONTEXTS.get(context, ".other")):
        _note(unknown, f"search_context_size{size}", 0)
    region = found.get("region")
    reading.region = None if region in _ANYWHERE else region
    reading.reported_usd = None
    for role, scale in _COST.items():
        value = found.get(role)
        if value is not None:
            cost = value * scale
            reading.reported_usd = cost if 0 <= cost <= _MAX_COST else None
            break


# Units that are parts, the fields that they are part of, and the parts beside them there.
_WITHIN: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "cache_audio_read_tokens": (
        ("cached_tokens", ("cache_image_read_tokens", "cache_video_read_tokens")),
        ("audio_prompt_tokens", ()),
    ),
    "cache_image_read_tokens": (
        ("cached_tokens", ("cache_audio_read_tokens", "cache_video_read_tokens")),
        ("image_prompt_tokens", ()),
    ),
    "cache_video_read_tokens": (
        ("cached_tokens", ("cache_audio_read_tokens", "cache_image_read_tokens")),
    ),
    "input_video_tokens": (("prompt_tokens", ("audio_prompt_tokens", "image_prompt_tokens")),),
    "output_video_tokens": (
        ("completion_tokens", ("audio_completion_tokens", "image_completion_tokens")),
    ),
    "output_citation_tokens": (("completion_tokens", ("reasoning_tokens",)),),
}


def _parts_of(counts: dict[str, Any], prompt: int, completion: int) -> dict[str, int]:
    parts: dict[str, int] = {}
    left = {"audio_prompt_tokens": prompt, "audio_completion_tokens": completion}
    for usage, field in FIELDS.items():
        count = counts.get(usage)
        if not count:
            continue
        if field == "cache_write_1h_tokens":
            count = min(count, counts.get("cache_write_tokens", 0))
        elif field == "reasoning_tokens":
            count = min(count, completion)
        elif field in left:
            count = min(count, left[field])
        elif field.startswith("image"):
            sounds = "audio" + field[5:]
            count = min(count, left[sounds] - parts.get(sounds, 0))
        if count:
            parts[field] = count
    return parts


def tier_of(tier: object, speed: object = None) -> str | None:
    """Return the service tier that a record has, if it is another than the standard one."""
    if speed == "fast":
        return "fast"
    tier = getattr(tier, "value", tier)
    if not isinstance(tier, str):
        return None
    tier = tier.lower()
    tier = TIERS_OF_OTHERS.get(tier, tier)
    return tier if tier in TIERS else None


def unknown_tier(tier: object) -> str | None:
    """Return a tier that we don't know as the name of a field, such as `service_tier.scale`.

    Of a text that is no name, which could be anybody's, only that it is there.
    """
    tier = getattr(tier, "value", tier)
    if not isinstance(tier, str) or tier in STANDARD_TIERS:
        return None
    name = tier.lower()
    if name in STANDARD_TIERS or tier_of(name):
        return None
    return "service_tier" if _NO_TIER_NAME.search(name) else f"service_tier.{name}"


def _add_iterations(readings: list[Reading], iterations: Any, model: object) -> None:
    """Add what the steps of an answer of Anthropic's cost beyond its own counts.

    A compaction is not in them, an advisor is a call of its own model, and so is the attempt of a
    model that declined after it had begun to answer. Where the answer's output is that of all its
    steps, a gateway has added the compaction already.
    """
    answer = readings[0]
    steps = [*map(members_of, iterations)] if isinstance(iterations, (list, tuple)) else []
    written = [(step.get("type"), count_of(step.get("output_tokens")) or 0) for step in steps]
    said = sum(count for kind, count in written if kind in _ANSWERED)
    compacted = sum(count for kind, count in written if kind == "compaction")
    is_added = said > 0 and compacted > 0 and answer.completion >= said + compacted
    for members in steps:
        kind, own = members.get("type"), members.get("model")
        found: dict[str, Any] = {}
        _walk(members, FAMILIES["tokens"], found, answer.unknown, ("iterations",))
        if kind in _ANSWERED:
            asked = model if isinstance(model, str) else ""
            # Of one model, a name may have a date or a host's prefix.
            if not isinstance(own, str) or not asked or own in asked or asked in own:
                continue
            if not found.get(_OUTPUT):
                continue
        elif kind not in ("compaction", "advisor_message"):
            if found.get(_INPUT):
                _note(answer.unknown, "iterations.input_tokens", found[_INPUT])
            continue
        reading = _resolve(found, {}, DIALECTS["anthropic"]["leaves_out"], True, True)
        if reading is None:
            continue
        if kind == "compaction":
            if not is_added:
                _add(answer, reading)
        else:
            reading.model = own if isinstance(own, str) else None
            reading.service_tier, reading.region = answer.service_tier, answer.region
            readings.append(reading)


_ANSWERED = ("message", "fallback_message")


def _add(reading: Reading, other: Reading) -> None:
    reading.prompt += other.prompt
    reading.completion += other.completion
    if other.cached:
        reading.cached = (reading.cached or 0) + other.cached
    if other.written:
        reading.written = (reading.written or 0) + other.written
    for name, count in other.parts.items():
        reading.parts[name] = reading.parts.get(name, 0) + count


# What stands beside a usage and has costs of its own.
_BESIDE = frozenset(("tool_usage", "svg_usage", "output", "candidates"))


def _add_tools(readings: list[Reading], beside: Mapping[str, Any], model: object) -> None:
    """Add what hosted tools cost: their usage, or the calls of them in an answer."""
    if _BESIDE.isdisjoint(beside):
        return
    answer = readings[0]
    tools = members_of(beside.get("tool_usage"))
    searches = count_of(members_of(tools.get("web_search")).get("num_requests"))
    if searches is None:
        # The billed searches in the parts of an answer, of which only their kind is read.
        count = 0
        for item in _items(beside, "output"):
            members = members_of(item)
            if members.get("type") == "web_search_call" and members.get("status") != "failed":
                action = members_of(members.get("action")).get("type", "search")
                count += action == "search"
        queries: set[str] = set()
        for candidate in _items(beside, "candidates"):
            members = members_of(candidate)
            grounding = members_of(
                members.get("grounding_metadata", members.get("groundingMetadata"))
            )
            found = grounding.get("web_search_queries", grounding.get("webSearchQueries"))
            queries.update(each for each in found or () if isinstance(each, str) and each)
        # Before Gemini 3, a grounded prompt is billed, however many queries it took.
        is_by_prompt = isinstance(model, str) and re.search(r"gemini-[12]", model) is not None
        searches = count + (min(len(queries), 1) if is_by_prompt else len(queries))
    if searches and "web_searches" not in answer.parts:
        answer.parts["web_searches"] = searches
    asked = (each for each in map(members_of, _items(beside, "tools")) if "model" in each)
    of_images = (each["model"] for each in asked if each.get("type") == _IMAGE_TOOL)
    drawn_by = next((model for model in of_images if isinstance(model, str)), _IMAGE_MODEL)
    for name, usage in tools.items():
        if type(usage) in (int, float):
            _note(answer.unknown, _path(("tool_usage",), name), usage)
        elif usage is not None and name != "web_search":
            by = drawn_by if name == "image_gen" else name
            _add_tool(readings, usage, by, ("tool_usage", name))
    others = {**members_of(tools.get("web_search")), "num_requests": None}
    _walk(others, _NO_MEMBERS, {}, answer.unknown, ("tool_usage", "web_search"))
    for holder in (beside, *_items(beside, "output")):
        usage = members_of(holder).get("svg_usage")
        if usage is not None:
            _add_tool(readings, usage, members_of(usage).get("model"), ("svg_usage",))


def _add_tool(readings: list[Reading], usage: Any, model: object, path: tuple[Any, ...]) -> None:
    found: dict[str, Any] = {}
    answer = readings[0]
    _walk(members_of(usage), FAMILIES["tokens"], found, answer.unknown, path)
    reading = _resolve(found, {}, (), True, True)
    if reading is None or not (reading.prompt or reading.completion):
        return
    reading.model = model if isinstance(model, str) else None
    reading.service_tier = answer.service_tier
    readings.append(reading)


# The model of an image tool whose request names none: openai 3.57, responses.tool.ImageGeneration.
_IMAGE_TOOL, _IMAGE_MODEL = "image_generation", "gpt-image-1"


def _items(members: Mapping[str, Any], name: str) -> Iterable[Any]:
    items = members.get(name)
    return items if isinstance(items, (list, tuple)) else ()


# Units of the price book's registry without a field of a record; texts are the rest of their whole.
_UNITS = frozenset(
    (
        *("cache_audio_read_tokens", "cache_image_read_tokens", "cache_video_read_tokens"),
        *("input_video_tokens", "output_video_tokens", "output_citation_tokens"),
        *("audio_seconds", "input_audio_seconds", "input_characters", "input_text_messages"),
        *("input_document_pages", "input_annotated_document_pages"),
        *("rerank_searches", "social_searches", "storage_searches", "code_executions"),
    )
)
