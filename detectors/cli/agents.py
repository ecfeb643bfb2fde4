"""`tallystick agents`: what coding agents on this machine have used, from their own files.

What was read stays in the ledger, so that later runs read only what is new; they import neither
the dataframe library nor the price book.
"""

import json
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from detectors.agents import reading, views
from detectors.agents.folders import NAMES, data_folder, find_sources
from detectors.agents.ledger import Ledger
from detectors.cli.console import BadInputError, rare_collections, standard_output, with_options

LEDGER: Final = "ledger.db"
_DEFAULT_DAYS: Final = 30
_LIVE_SECONDS: Final = 5.0


def _day(_: click.Context, __: click.Parameter, value: str | None) -> date | None:
    if value is None:
        return None
    for form in ("%Y-%m-%d", "%Y%m%d"):
        try:
            return datetime.strptime(value, form).replace(tzinfo=UTC).date()
        except ValueError:
            continue
    raise click.BadParameter("use a date such as 2026-11-28")


def _zone(_: click.Context, __: click.Parameter, value: str | None) -> tzinfo | None:
    if value is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.BadParameter("use a time zone such as Europe/Berlin") from error


ledger_option: Final = click.option(
    "--ledger",
    "ledger_path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Use this ledger file instead of the one in your data folder.",
)
_offline: Final = click.option(
    "--offline", "-O", is_flag=True, expose_value=False,
    help="No effect: this command never uses the network.",
)  # fmt: skip
_output: Final = (
    click.option("--json", "-j", "as_json", is_flag=True, help="Print JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
)
_choice: Final = (
    click.option("--since", "-s", metavar="DATE", callback=_day, help="The first day."),
    click.option("--until", "-u", metavar="DATE", callback=_day, help="The last day, included."),
    click.option(
        "--tz", "--timezone", "-z", "zone", metavar="ZONE", callback=_zone,
        help="Days of this time zone; by default, of this machine.",
    ),
    click.option("--project", "-p", metavar="NAME", default="", help="Only this project."),
    click.option("--agent", type=click.Choice(sorted(NAMES)), help="Only this agent."),
)  # fmt: skip
_rows: Final = (
    click.option("--last", type=click.IntRange(min=1), help="The last N days or other rows."),
    click.option(
        "--order", "-o", type=click.Choice(("desc", "asc")), default="desc", help="By time."
    ),
    click.option("--breakdown", "-b", is_flag=True, help="Show each model."),
    click.option("--instances", "-i", is_flag=True, help="Show each project."),
    click.option("--live", is_flag=True, help="Repeat every five seconds."),
)
_each: Final = with_options(*_choice, *_rows, *_output, ledger_option, _offline)


@contextmanager
def open_ledger(path: Path | None) -> Iterator[Ledger]:
    """Open the ledger, and turn what SQLite raises into one line."""
    path = path or data_folder(os.environ, Path.home()) / LEDGER
    try:
        ledger = Ledger(path)
        try:
            yield ledger
        finally:
            ledger.close()
    except sqlite3.Error as error:
        raise BadInputError(f"cannot use the ledger {path}: {error}") from error
    except OSError as error:
        raise BadInputError(f"cannot open the ledger {path}: {error.strerror}") from error


def refresh(ledger: Ledger) -> list[str]:
    """Read and price what is new; return what could not be read."""
    problems = reading.update(ledger, prices=True)
    reading.price(ledger)
    return problems


def refuse_options_before_command(context: click.Context) -> None:
    """Refuse what the group would take and its command would never see."""
    given = (context.get_parameter_source(name) for name in context.params)
    if context.invoked_subcommand and ParameterSource.COMMANDLINE in given:
        raise click.UsageError(f"Put the options after {context.invoked_subcommand!r}.", context)


@click.group(invoke_without_command=True)
@_each
@click.pass_context
def agents(context: click.Context, /, **options: Any) -> None:
    """Show what your coding agents have used, by day.

    Reads the session files of Claude Code, Codex, Gemini CLI, Qwen Code, opencode, Cline, Roo Code,
    Kilo Code, Amp and Copilot CLI where they are, on this machine only, and keeps each call's
    counts in a ledger, so that history outlasts the agents' own clean-up. Calls that a plan
    includes have a value at API prices; others are billed.
    """
    refuse_options_before_command(context)
    if context.invoked_subcommand is None:
        if not any(options[name] for name in ("since", "until", "last")):
            today = datetime.now(options["zone"]).date()
            options["since"] = today - timedelta(days=_DEFAULT_DAYS - 1)
        _show("daily", **options)


def _command(by: str, text: str) -> None:
    @_each
    @rare_collections()
    def run(**options: Any) -> None:
        _show(by, **options)

    run.__doc__ = text
    agents.command(by)(run)


for _by, _text in {
    "daily": "Show usage by day.",
    "weekly": "Show usage by week, from Monday.",
    "monthly": "Show usage by month.",
    "session": "Show usage by session.",
    "project": "Show usage by project.",
    "model": "Show usage by model.",
}.items():
    _command(_by, _text)


def _show(by: str, *, ledger_path: Path | None, live: bool, **options: Any) -> None:
    with open_ledger(ledger_path) as ledger:
        if live and sys.stdout.isatty():
            _repeat(lambda: _print_rows(ledger, by, **options))
        else:
            _print_rows(ledger, by, **options)


def _repeat(show: Callable[[], None]) -> None:
    try:
        while True:
            click.clear()
            show()
            time.sleep(_LIVE_SECONDS)
    except KeyboardInterrupt:
        pass


def _choice_of(options: dict[str, Any]) -> views.Choice:
    names = ("zone", "since", "until", "project", "agent")
    return views.Choice(**{name: options[name] for name in names if options[name]})


def _print_rows(ledger: Ledger, by: str, **options: Any) -> None:
    problems = refresh(ledger)
    groups = views.sum_calls(
        ledger, by, _choice_of(options), by_project=options["instances"] and by != "project"
    )
    if options["last"]:
        kept = list(dict.fromkeys(group.key for group in groups))[: options["last"]]
        groups = [group for group in groups if group.key in kept]
    if options["order"] == "asc":
        groups.reverse()
    with standard_output():
        if options["as_json"]:
            rows = [
                {
                    by if by in ("session", "project", "model") else "period": group.key,
                    **({"project": group.project} if group.project else {}),
                    "first_call": _iso(group.sums.first_us),
                    "last_call": _iso(group.sums.last_us),
                    **_parts(group),
                }
                for group in groups
            ]
            total = _parts(views.total_of(groups))
            document = {"by": by, "rows": rows, "total": total, "not_read": problems}
            click.echo(json.dumps(document, indent=2))  # documented in docs/agents.md
        elif options["as_csv"]:
            import csv

            writer = csv.writer(sys.stdout)
            writer.writerow(("period" if by.endswith("ly") else by, "project", "agent", *_FIGURES))
            for group in groups:
                for agent, sums in sorted(group.agents.items()):
                    writer.writerow((group.key, group.project, agent, *_figures(sums).values()))
        else:
            from detectors.cli.agent_tables import print_groups

            print_groups(by, groups, views.find_windows(ledger), breakdown=options["breakdown"])
    _warn(problems)


def _warn(problems: list[str]) -> None:
    for problem in problems[:5]:
        click.echo(f"Not read: {problem}", err=True)
    if len(problems) > 5:
        more = len(problems) - 5
        click.echo(f"and {more:,} more; `tallystick agents sources` lists them", err=True)


_FIGURES: Final = (
    *("calls", "input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens"),
    *("reasoning_tokens", "total_tokens", "web_searches", "cache_share"),
    *("value_usd", "billed_usd", "subagent_share", "unpriced_calls"),
)


def _figures(sums: views.Sums) -> dict[str, Any]:
    found = {name: getattr(sums, name) for name in _FIGURES}
    return {
        name: round(value, 6) + 0.0 if isinstance(value, float) else value
        for name, value in found.items()
    }


def _parts(group: views.Group) -> dict[str, Any]:
    return {
        **_figures(group.sums),
        "agents": {name: _figures(sums) for name, sums in sorted(group.agents.items())},
        "models": {name: _figures(sums) for name, sums in sorted(group.models.items())},
    }


def _iso(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@agents.command()
@with_options(*_choice, *_output, ledger_option, _offline)
@click.option("--active", "-a", is_flag=True, help="Only the current window.")
@click.option("--recent", "-r", is_flag=True, help="Only windows of the last three days.")
@click.option("--live", is_flag=True, help="Repeat every five seconds.")
@rare_collections()
def blocks(
    ledger_path: Path | None, active: bool, recent: bool, live: bool, **options: Any
) -> None:
    """Show the five-hour windows of a plan, with the current rate."""
    options["agent"] = options["agent"] or "claude-code"
    with open_ledger(ledger_path) as ledger:

        def show() -> None:
            refresh(ledger)
            now = time.time()
            found = views.find_blocks(ledger, _choice_of(options))
            if active:
                found = [block for block in found if block.is_active(now)]
            if recent:
                found = [block for block in found if block.end > now - 3 * 86_400]
            rows = list[dict[str, Any]]()
            for block in found:
                row = {
                    "start": _iso(block.start * 1_000_000),
                    "end": _iso(block.end * 1_000_000),
                    "active": block.is_active(now),
                    **_figures(block.sums),
                    "models": sorted(block.models),
                }
                if row["active"]:
                    tokens, value, billed = block.rates(now)
                    row |= {"tokens_per_minute": round(tokens)}
                    row |= {"value_usd_per_minute": round(value, 6)}
                    row |= {"billed_usd_per_minute": round(billed, 6)}
                    tokens, value, billed = block.projected(now)
                    row |= {"projected_tokens": round(tokens)}
                    row |= {"projected_value_usd": round(value, 6)}
                    row |= {"projected_billed_usd": round(billed, 6)}
                rows.append(row)
            with standard_output():
                if options["as_json"]:
                    click.echo(json.dumps({"blocks": rows}, indent=2))
                elif options["as_csv"]:
                    import csv

                    names = ("start", "end", "active", *_FIGURES)
                    writer = csv.writer(sys.stdout)
                    writer.writerow(names)
                    writer.writerows([row[name] for name in names] for row in rows)
                else:
                    from detectors.cli.agent_tables import print_blocks

                    print_blocks(found, now, options["zone"])

        if live and sys.stdout.isatty():
            _repeat(show)
        else:
            show()


@agents.command()
@with_options(*_choice, *_output[:1], ledger_option, _offline)
@rare_collections()
def findings(ledger_path: Path | None, as_json: bool, **options: Any) -> None:
    """Show cold restarts, long sessions and other habits that cost."""
    from detectors.agents.findings import find_all

    with open_ledger(ledger_path) as ledger:
        problems = refresh(ledger)
        choice = _choice_of(options)
        found = find_all(ledger, choice)
        total = views.total_of(views.sum_calls(ledger, "monthly", choice)).sums
    with standard_output():
        if as_json:
            document: dict[str, Any] = {name: [] for name in found._fields}
            for name, kind in found._asdict().items():
                for each in kind:
                    row = {**vars(each), "at": _iso(each.at * 1_000_000)}
                    dollars = {key: row[key] for key in row if "usd" in key}
                    row |= {key: value and round(value, 6) for key, value in dollars.items()}
                    document[name].append(row)
            document |= {"total": _figures(total), "not_read": problems}
            click.echo(json.dumps(document, indent=2))
        else:
            from detectors.cli.agent_tables import print_findings

            print_findings(found, total, options["zone"])
    _warn(problems)


@agents.command()
@with_options(*_output[:1], ledger_option, _offline)
@rare_collections()
def sources(ledger_path: Path | None, as_json: bool) -> None:
    """Show the folders that were looked at and what was read."""
    with open_ledger(ledger_path) as ledger:
        problems = refresh(ledger)
        found = list[dict[str, Any]]()
        for source in find_sources(os.environ, Path.home()):
            rows = ledger.database.execute(
                "SELECT size, unread, problem FROM files WHERE folder = ?", (str(source.folder),)
            ).fetchall()
            skipped = Counter[str]()
            for _, unread, _ in rows:
                skipped.update(json.loads(unread))
            state = "found" if source.folder.exists() else "missing"
            if source.adapter is None and state == "found":
                state = "no calls in files"
            found.append(
                {
                    "agent": NAMES.get(source.agent, source.agent),
                    "folder": str(source.folder),
                    "state": state,
                    "files": len(rows),
                    "bytes": sum(row[0] for row in rows),
                    "skipped": skipped,
                    "problems": sum(bool(row[2]) for row in rows),
                }
            )
        calls = dict(ledger.database.execute("SELECT agent, count(*) FROM calls GROUP BY 1"))
    with standard_output():
        if as_json:
            document = {"sources": found, "calls": calls, "not_read": problems}
            click.echo(json.dumps(document, indent=2))
        else:
            from detectors.cli.agent_tables import print_sources

            print_sources(found, calls, problems)


@agents.command()
@click.argument("session")
@with_options(*_output[:1], ledger_option, _offline)
@rare_collections()
def explain(session: str, ledger_path: Path | None, as_json: bool) -> None:
    """Show each call of a session: counts, rates and cost by part.

    SESSION is a session's ID or its beginning, as `tallystick agents session` shows it.
    """
    from detectors.agents.explaining import explain_session

    with open_ledger(ledger_path) as ledger:
        refresh(ledger)
        calls = explain_session(ledger, session)
    if not calls:
        raise BadInputError(f"No session begins with {session}.")
    if len(found := sorted({call["session"] for call in calls})) > 1:
        named = ", ".join(found[:5])
        raise BadInputError(f"{len(found)} sessions begin with {session}: {named}")
    with standard_output():
        if as_json:
            click.echo(json.dumps({"calls": calls}, indent=2))
        else:
            from detectors.cli.agent_tables import print_calls

            print_calls(calls)


@agents.command()
@ledger_option
@_offline
def statusline(ledger_path: Path | None) -> None:
    """Print a status line for Claude Code, and keep its plan's limits.

    Claude Code runs it with the session as JSON on standard input, if its settings have:

    \b
      {"statusLine": {"type": "command", "command": "tallystick agents statusline"}}
    """
    from detectors.agents.statusline import status_line

    try:
        given = json.loads(sys.stdin.buffer.read(1 << 20) or b"{}")
    except ValueError as error:
        raise BadInputError("standard input isn't Claude Code's status line JSON") from error
    with open_ledger(ledger_path) as ledger:
        click.echo(status_line(ledger, given if isinstance(given, dict) else {}))
