"""Tables of `tallystick agents` in a terminal: narrow ones have fewer columns.

They are printed as plain text, because loading and running a table library takes longer than all
the rest of the command.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from io import TextIOWrapper
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from detectors.agents.folders import NAMES
from detectors.agents.views import Block, Group, Sums, Window, apart, total_of
from detectors.wording.figures import counted, percent, short_number, usd
from detectors.wording.labels import inert

if TYPE_CHECKING:
    from detectors.agents.findings import Findings

PLAIN_WIDTH: Final = 100  # for a file or a pipe, which has no width
_WIDEST: Final = 145
_WIDE: Final = 120
_NARROW: Final = 95
_HEADINGS: Final = {"daily": "Day", "weekly": "Week from", "monthly": "Month"}
_TEXTS: Final = ("name", "project", "models")
_MODELS: Final = 2
_MOST_FINDINGS: Final = 20
_DATE: Final = re.compile(r"-20\d{6}$")
_USUAL: Final = 80
_LONGEST, _SHORTEST = 40, 16  # names, in usual and in narrow terminals
_BESIDE_FOLDER: Final = 47  # the other columns of `sources`
_TOTAL: Final = "Total"
_VALUE_NOTE: Final = "Value is what the API would charge for calls that your plan includes."


class Line(NamedTuple):
    cells: Sequence[str]
    style: str = ""  # bold or dim


def terminal_width() -> int:
    is_sized = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns if is_sized else PLAIN_WIDTH


def print_table(headings: Sequence[str], lines: Sequence[Line], texts: int) -> None:
    """Print lines below headings; the first `texts` columns are aligned to the left."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a label may not fit the encoding
    columns = zip(headings, *(line.cells for line in lines), strict=True)
    widths = [max(map(len, column)) for column in columns]
    rule = Line(["─" * width for width in widths], "dim")
    total = lines[-1:] if lines and lines[-1].style == "bold" else []
    body = lines[: len(lines) - len(total)]
    shown = [Line(headings, "bold"), rule, *body, *([rule] if total else []), *total]
    for cells, style in shown:
        padded = (
            cell.ljust(width) if place < texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        text = "  ".join(padded).rstrip()
        click.echo(click.style(text, **{style: True}) if style else text)


def print_groups(
    by: str, groups: Sequence[Group], windows: Sequence[Window], *, breakdown: bool
) -> None:
    if not groups:
        said = "We found no calls. `tallystick agents sources` lists the folders we looked at."
        click.echo(said)
        return
    total, width = total_of(groups), terminal_width()
    chosen = {
        "name": True,
        "project": any(group.project for group in groups),
        "models": width >= _WIDEST and by != "model",
        "input": True,
        "output": True,
        "cache write": width >= _NARROW,
        "cache read": width >= _NARROW,
        "cache": True,
        "reasoning": width >= _WIDE,
        "sub-agents": width >= _WIDE,
        "value": bool(total.sums.value_usd or not total.sums.billed_usd),
        "billed": bool(total.sums.billed_usd),
    }
    columns = [name for name, is_chosen in chosen.items() if is_chosen]
    titles = {"name": _HEADINGS.get(by, by.capitalize()), "cache": "Cached"}
    headings = [titles.get(name, name.capitalize()) for name in columns]
    lines = list[Line]()
    for group in groups:
        name = inert(group.key) or "(none)"
        if by == "session" and "-" in name:
            name = name[:13]
        cells = _cells(columns, _shortened(name), group.project, group.sums, group.models)
        lines.append(Line(cells))
        beneath = [group.agents] if by in _HEADINGS or len(group.agents) > 1 else []
        if breakdown:
            beneath.append(group.models)
        for parts in beneath:
            for part, sums in sorted(parts.items(), key=lambda item: -item[1].usd):
                label = f"  {_shortened(inert(NAMES.get(part, part)))}"
                lines.append(Line(_cells(columns, label, "", sums, {}), "dim"))
    lines.append(Line(_cells(columns, _TOTAL, "", total.sums, total.models), "bold"))
    print_table(headings, lines, sum(name in _TEXTS for name in columns))
    for note in _notes(total.sums, windows):
        for line in wrap(note, width):
            click.echo(click.style(line, dim=True))


def _cells(
    columns: Iterable[str], name: str, project: str, sums: Sums, models: dict[str, Sums]
) -> list[str]:
    names = sorted(models, key=lambda model: -models[model].usd)
    short = [_DATE.sub("", each.rpartition("/")[2].removeprefix("claude-")) for each in names]
    more = f" +{len(short) - _MODELS}" if len(short) > _MODELS else ""
    cells = {
        "name": name,
        "project": _shortened(inert(project)),
        "models": inert(", ".join(short[:_MODELS]) + more),
        "input": short_number(sums.input_tokens),
        "output": short_number(sums.output_tokens),
        "cache write": short_number(sums.cache_write_tokens),
        "cache read": short_number(sums.cache_read_tokens),
        "cache": percent(sums.cache_share * 100),
        "reasoning": short_number(sums.reasoning_tokens),
        "sub-agents": percent(sums.subagent_share * 100),
        "value": usd(sums.value_usd),
        "billed": usd(sums.billed_usd),
    }
    return [cells[column] for column in columns]


def _shortened(name: str) -> str:
    longest = _LONGEST if terminal_width() >= _USUAL else _SHORTEST
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _notes(total: Sums, windows: Sequence[Window]) -> Iterator[str]:
    if total.value_usd:
        yield _VALUE_NOTE
    if total.unpriced_calls:
        calls, has = counted(total.unpriced_calls, "call"), total.unpriced_calls == 1
        yield f"{calls} {'has' if has else 'have'} no known price and are excluded from dollars."
    for window in windows:
        plan = f" ({window.plan})" if window.plan else ""
        resets = datetime.fromtimestamp(window.resets_at, UTC).astimezone()
        ends = "resets" if window.resets_at > time.time() else "reset"
        peak = f"; peak {window.peak:.0f}% over {window.windows} windows"
        yield (
            f"{NAMES.get(window.agent, window.agent)}{plan}: {window.used:.0f}% of the "
            f"{window.name} limit used, {ends} {resets:%b %d, %H:%M}"
            f"{peak if window.windows > 1 else ''}."
        )


def print_blocks(blocks: Sequence[Block], now: float, zone: tzinfo | None) -> None:
    if not blocks:
        click.echo("No five-hour window has calls.")
        return
    lines = []
    for block in reversed(blocks):
        start = datetime.fromtimestamp(block.start, UTC).astimezone(zone)
        end = datetime.fromtimestamp(block.end, UTC).astimezone(zone)
        state = ""
        if block.is_active(now):
            left = int(block.end - now) // 60
            state = f"active, {left // 60}h {left % 60:02d}m left"
        figures = short_number(block.sums.total_tokens), usd(block.sums.value_usd)
        window = f"{start:%Y-%m-%d %H:%M} – {end:%H:%M}"
        lines.append(Line([window, state, *figures, usd(block.sums.billed_usd)]))
    print_table(("Window", "State", "Tokens", "Value", "Billed"), lines, 2)
    current = blocks[-1]
    if current.is_active(now):
        tokens, *amounts = current.rates(now)
        last_tokens, *last_amounts = current.projected(now)
        click.echo(
            f"Now: {short_number(tokens)} tokens and {apart(*amounts)} per minute. At this rate "
            f"the window ends with {short_number(last_tokens)} tokens and {apart(*last_amounts)}."
        )


def print_findings(found: "Findings", total: Sums, zone: tzinfo | None) -> None:
    """Print each kind of finding as a table, its most expensive first, and its sum."""
    kinds: Iterable[Sequence[Any]] = found
    for kind, (name, headings, text, note, is_estimate) in zip(kinds, KINDS, strict=True):
        if not kind:
            click.echo(f"No {name}s found.\n")
            continue
        lines = []
        for each in kind[:_MOST_FINDINGS]:
            at = datetime.fromtimestamp(each.at, UTC).astimezone(zone)
            when, session = f"{at:%Y-%m-%d %H:%M}", each.session[:8]
            cells = [when, inert(each.project), session, text(each), short_number(each.tokens)]
            amount = "–"
            if each.usd is not None:
                least = f"{usd(each.least_usd)} to " if is_estimate else ""
                amount = f"{least}{usd(each.usd)} {'billed' if each.is_metered else 'value'}"
            lines.append(Line([*cells, amount]))
        print_table(("When", "Project", "Session", *headings, "Dollars"), lines, 3)
        if len(kind) > len(lines):
            click.echo(f"and {len(kind) - len(lines):,} more; --json has all")
        value = sum(each.usd or 0.0 for each in kind if not each.is_metered)
        billed = sum(each.usd or 0.0 for each in kind if each.is_metered)
        total_usd = f"{'up to ' * is_estimate}{apart(value, billed)}"
        said = [f"{counted(len(kind), name)}: {total_usd}"]
        if value and total.value_usd:
            share = percent(value / total.value_usd * 100)
            said.append(f"{share} of the value of your plan's calls")
        tokens = short_number(sum(each.tokens for each in kind))
        click.echo("\n".join(wrap(f"{', '.join(said)}. {tokens} {note}", terminal_width())) + "\n")


def _pause(found: Any) -> str:
    return f"{found.pause_seconds // 60:,} min"


class _Kind(NamedTuple):
    name: str
    headings: tuple[str, str]
    text: Callable[[Any], str]
    note: str
    is_estimate: bool  # as the kind's class is, which isn't imported here


KINDS: Final = (
    _Kind("cold restart", ("Pause", "Written again"), _pause, "tokens were written again.", False),
    _Kind(
        "long session", ("Pause", "Read again"), _pause,
        "tokens from before a pause of over an hour were read again.", True,
    ),
    _Kind(
        "large sub-agent", ("Smaller model", "Tokens"), lambda each: str(each.smaller_model),
        "tokens of sub-agents whose answers were all short.", True,
    ),
    _Kind(
        "retry loop", ("Calls", "Tokens"), lambda each: f"{each.calls:,}",
        "tokens of calls that got a result of the same size as the two before.", True,
    ),
)  # fmt: skip


def print_sources(
    sources: Sequence[dict[str, Any]], calls: dict[str, int], problems: Sequence[str]
) -> None:
    home, most = f"{Path.home()}{os.sep}", max(_SHORTEST, terminal_width() - _BESIDE_FOLDER)
    lines = list[Line]()
    for source in sources:
        folder, state = source["folder"], source["state"]
        if folder.startswith(home):
            folder = f"~{os.sep}{folder.removeprefix(home)}"
        folder, end = inert(folder), most // 2
        if len(folder) > most:
            folder = f"{folder[: most - end - 1]}…{folder[-end:]}"
        counts = f"{source['files']:,}", f"{source['bytes'] / 1e6:,.1f}"
        style = "dim" if state == "missing" else ""
        lines.append(Line([source["agent"], folder, state, *counts], style))
    print_table(("Agent", "Folder", "State", "Files", "MB"), lines, 3)
    for agent, count in sorted(calls.items()):
        click.echo(f"{NAMES.get(agent, agent)}: {counted(count, 'call')} in the ledger")
    for source in sources:
        for reason, count in sorted(source["skipped"].items()):
            click.echo(f"{source['agent']}, skipped: {count:,} {inert(reason)}")
    for problem in problems:
        click.echo(f"Not read: {inert(problem)}")


def print_calls(calls: Sequence[dict[str, Any]]) -> None:
    """Print a session by turn: what each part counts, its rate and its cost, and what grew it."""
    for number, call in enumerate(calls, 1):
        labels = [call["tier"], "sub-agent" if call["is_subagent"] else ""]
        title = "  ".join([f"{number}. {call['at']}", call["model"], *filter(None, labels)])
        cost = "no known price" if call["usd"] is None else usd(call["usd"])
        click.echo(click.style(f"{inert(title)}  {cost}", bold=True))
        if number > 1 and call["prompt_growth"]:
            growth = f"{call['prompt_growth']:+,}"
            click.echo(f"   prompt {call['prompt_tokens']:,} tokens ({growth})")
        for part in call["parts"]:
            per = part["rate_usd"] * (1_000_000 if part["per"] == "Mtok" else 1)
            rate, own = f"{usd(per)}/{part['per']}", usd(part["usd"])
            click.echo(f"   {part['part']}: {part['count']:,} × {rate} = {own}")
        if call["raw"]:
            click.echo(click.style(f"   as logged: {inert(call['raw'])}", dim=True))
        if call["reported_usd"] is not None:
            click.echo(f"   the agent's own figure: {usd(call['reported_usd'])}")
    sums = [
        sum(call["usd"] or 0.0 for call in calls if call["billing"] == billing)
        for billing in ("included", "metered")
    ]
    click.echo(click.style(f"Sum: {apart(*sums)}", bold=True))
