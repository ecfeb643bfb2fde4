"""Folders of coding agents' sessions in their real shapes, made up, with a known bill.

Each session has what agents write around their counts: prompts, tool results, snapshots. A part of
them is resumed, forked, has sub-agents, compactions, advisors, fast tiers, one-hour cache writes,
or messages that the agent wrote itself. `calls` has what was billed, once each.
"""

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

START: Final = datetime(2026, 6, 22, 8, 0, tzinfo=UTC)  # fast mode of two models ended on July 24
_WORDS: Final = [
    "the",
    "file",
    "has",
    "a",
    "function",
    "that",
    "returns",
    "rows",
    "and",
    "tests",
    "fail",
    "where",
    "it",
    "is",
    "empty",
]
_CLAUDE: Final = ("claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5-20251001")
_PROJECTS: Final = ("boats", "harbor", "tides", "charts", "anchors")


@dataclass(frozen=True)
class Billed:
    """A call as the provider bills it."""

    agent: str
    model: str
    at: datetime
    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    reasoning: int = 0
    searches: int = 0
    tier: str = ""
    project: str = ""
    is_subagent: bool = False
    session: str = ""

    def record(self) -> dict[str, Any]:
        return {
            "ts": self.at.isoformat(),
            "provider": self.agent,
            "model": self.model,
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "cached_tokens": self.cached,
            "cache_write_tokens": self.written,
            "cache_write_1h_tokens": self.written_1h,
            "reasoning_tokens": self.reasoning,
            "web_searches": self.searches,
            "service_tier": self.tier or None,
            "billing": "metered",
            "tag": self.project,
        }


@dataclass(frozen=True)
class Restart:
    """A pause after which a session's context was written again, and how long caches lived."""

    session: str
    at: datetime
    model: str
    tokens: int
    is_hour: bool
    is_fast: bool


@dataclass
class Folder:
    """Writes sessions below a home folder; `calls` is their bill."""

    home: Path
    random: random.Random
    bytes_per_line: int = 3_000
    calls: list[Billed] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    written: int = 0

    def text(self, size: int) -> str:
        size = max(20, int(self.random.expovariate(1 / size)))
        start = self.random.randrange(len(_WORDS))
        return (" ".join(_WORDS[start:] + _WORDS) + "\n").ljust(80)[:80] * (size // 80 + 1)

    def uuid(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return "-".join(
            (digits[:8], digits[8:12], "4" + digits[13:16], "8" + digits[17:20], digits[20:])
        )

    def write(self, path: Path, lines: list[dict[str, Any]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        path.write_text(content)
        self.written += len(content)

    def add_claude(self, at: datetime, turns: int) -> None:
        """Write a session of Claude Code; some are resumed, and some have a sub-agent."""
        random, session, project = self.random, self.uuid(), self.random.choice(_PROJECTS)
        folder = self.home / ".claude" / "projects" / f"-home-dev-{project}"
        context = random.randrange(14_000, 24_000)
        model, speed = random.choice(_CLAUDE[:2]), "standard"
        is_hour = random.random() < 0.5
        if model == _CLAUDE[0] and random.random() < 0.1:
            speed = "fast"
        common = {
            "userType": "external",
            "cwd": f"/home/dev/{project}",
            "version": "2.1.140",
            "gitBranch": "main",
        }
        lines: list[dict[str, Any]] = [
            {"type": "summary", "summary": self.text(60), "leafUuid": self.uuid()}
        ]
        cached = cold = 0
        for _turn in range(turns):
            at += timedelta(seconds=random.randrange(8, 90))
            if random.random() < 0.03:
                at += timedelta(minutes=random.randrange(6, 50))
                if cached:
                    cold, cached = cached, 0
            lines.append(
                {"parentUuid": None, "isSidechain": False, **common, "sessionId": session, "type": "user",
                 "message": {"role": "user", "content": [{"type": "tool_result", "content": self.text(self.bytes_per_line), "tool_use_id": "toolu_1"}]},
                 "toolUseResult": {"stdout": self.text(self.bytes_per_line // 2)},
                 "uuid": self.uuid(), "timestamp": _iso(at)}
            )  # fmt: skip
            fresh, output = random.randrange(1, 12), random.randrange(40, 900)
            new = random.randrange(200, 2_600)
            written = context - cached + new if cached else context + new
            read = cached
            at += timedelta(seconds=random.randrange(3, 30))
            usage = self.claude_usage(fresh, read, written, output, speed, is_hour=is_hour)
            billed: dict[str, Any] = {
                "prompt": fresh + read + written, "completion": output, "cached": read, "written": written,
                "written_1h": written if is_hour else 0, "tier": "fast" if speed == "fast" else "",
            }  # fmt: skip
            extra = list[Billed]()
            if random.random() < 0.01:
                usage["iterations"], billed = self._compact(usage, billed, is_hour=is_hour)
            elif random.random() < 0.01 and speed == "standard":
                advisor = self._advise(usage, session, project, at)
                extra.append(advisor)
            if random.random() < 0.02:
                usage["server_tool_use"] = {"web_search_requests": 2, "web_fetch_requests": 0}
                billed["searches"] = 2
            lines += self.snapshots(common, session, model, at, usage, output)
            own = Billed("claude-code", model, at, **billed, project=project, session=session)
            self.calls += [own, *extra]
            if cold:
                restart = Restart(session, at, model, cold, is_hour, speed == "fast")
                self.restarts.append(restart)
                cold = 0
            context += new
            cached = context
        if random.random() < 0.1:
            lines.append(
                {"parentUuid": None, "isSidechain": False, **common, "sessionId": session, "type": "assistant",
                 "message": {"id": self.uuid(), "type": "message", "role": "assistant", "model": "<synthetic>",
                             "content": [{"type": "text", "text": "Interrupted"}], "stop_reason": "stop_sequence",
                             "usage": {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}},
                 "isApiErrorMessage": True, "uuid": self.uuid(), "timestamp": _iso(at)}
            )  # fmt: skip
        self.write(folder / f"{session}.jsonl", lines)
        if random.random() < 0.15:
            self._resume(folder, lines, session, common, at)
        if random.random() < 0.3:
            self._delegate(folder, session, project, common, at)

    def claude_usage(
        self, fresh: int, read: int, written: int, output: int, speed: str, *, is_hour: bool
    ) -> dict[str, Any]:
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 0 if is_hour else written,
                "ephemeral_1h_input_tokens": written if is_hour else 0,
            },
            "output_tokens": output,
            "service_tier": "standard",
            "speed": speed,
        }

    def _compact(
        self, usage: dict[str, Any], billed: dict[str, Any], *, is_hour: bool
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return steps with a compaction, which the usage's own counts leave out, and the bill."""
        step = {
            "type": "compaction", "input_tokens": 150_000, "output_tokens": 3_000,
            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
        }  # fmt: skip
        own = {name: usage[name] for name in (
            "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
        )}  # fmt: skip
        more = {"prompt": billed["prompt"] + 150_000, "completion": billed["completion"] + 3_000}
        return [step, {"type": "message", **own}], {**billed, **more}

    def _advise(self, usage: dict[str, Any], session: str, project: str, at: datetime) -> Billed:
        tokens, output = self.random.randrange(20_000, 90_000), self.random.randrange(500, 4_000)
        usage["iterations"] = [
            {"type": "message", "input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"],
             "cache_read_input_tokens": usage["cache_read_input_tokens"], "cache_creation_input_tokens": usage["cache_creation_input_tokens"]},
            {"type": "advisor_message", "model": "claude-opus-4-7", "input_tokens": tokens, "output_tokens": output,
             "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
        ]  # fmt: skip
        return Billed(
            "claude-code",
            "claude-opus-4-7",
            at,
            tokens,
            output,
            project=project,
            session=session,
        )

    def snapshots(
        self, common: dict[str, Any], session: str, model: str, at: datetime,
        usage: dict[str, Any], output: int, *, is_sidechain: bool = False,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """Yield the lines of a message: one for each part, of which the first has fewer tokens."""
        name, asked = (
            f"msg_01{self.random.getrandbits(80):020x}",
            f"req_011{self.random.getrandbits(80):020x}",
        )
        parts = self.random.choice((1, 2, 2, 3))
        is_partial = parts > 1 and self.random.random() < 0.4
        for part in range(parts):
            counts = (
                {**usage, "output_tokens": min(output, 8)} if is_partial and part == 0 else usage
            )
            kind: dict[str, Any] = {"type": "text", "text": self.text(self.bytes_per_line // 3)}
            if part:
                kind = {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Read",
                    "input": {"text": self.text(300)},
                }
            yield {
                "parentUuid": self.uuid(), "isSidechain": is_sidechain, **common, "sessionId": session,
                "message": {"model": model, "id": name, "type": "message", "role": "assistant", "content": [kind],
                            "stop_reason": None if is_partial and part == 0 else "tool_use", "stop_sequence": None, "usage": counts},
                "requestId": asked, "type": "assistant", "uuid": self.uuid(),
                "timestamp": _iso(at + timedelta(milliseconds=700 * part)),
            }  # fmt: skip

    def _resume(
        self,
        folder: Path,
        lines: list[dict[str, Any]],
        session: str,
        common: dict[str, Any],
        at: datetime,
    ) -> None:
        """Write the session again under a new ID, and a turn of its own."""
        other = self.uuid()
        copied = [{**line, "sessionId": other} if "sessionId" in line else line for line in lines]
        at += timedelta(hours=2)
        usage = self.claude_usage(4, 0, 30_000, 210, "standard", is_hour=False)
        copied += self.snapshots(common, other, _CLAUDE[1], at, usage, 210)
        self.calls.append(
            Billed("claude-code", _CLAUDE[1], at, 30_004, 210, written=30_000,
                   project=common["cwd"].rpartition("/")[2], session=other)
        )  # fmt: skip
        self.write(folder / f"{other}.jsonl", copied)

    def _delegate(
        self, folder: Path, session: str, project: str, common: dict[str, Any], at: datetime
    ) -> None:
        """Write the file of a sub-agent."""
        agent, lines, read = f"{self.random.getrandbits(32):08x}", list[dict[str, Any]](), 0
        for _ in range(self.random.randrange(2, 12)):
            at += timedelta(seconds=20)
            usage = self.claude_usage(5, read, 3_000, 120, "standard", is_hour=False)
            lines += self.snapshots(
                {**common, "agentId": agent}, session, _CLAUDE[2], at, usage, 120, is_sidechain=True
            )
            self.calls.append(
                Billed("claude-code", _CLAUDE[2], at, 3_005 + read, 120, cached=read, written=3_000,
                       project=project, is_subagent=True, session=session)
            )  # fmt: skip
            read += 3_000
        self.write(folder / session / "subagents" / f"agent-{agent}.jsonl", lines)

    def add_codex(self, at: datetime, turns: int) -> None:
        """Write a rollout of Codex; some are forked, once or twice."""
        tier = "priority" if self.random.random() < 0.1 else ""
        project = self.random.choice(_PROJECTS)
        name = self._codex_id(at)
        lines = [self._codex_meta(name, at, project)]
        total = dict.fromkeys(
            ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens"), 0
        )
        lines += self._codex_turns(name, at, turns, total, tier, project)
        self.write(self._rollout(name, at), lines)
        depth = self.random.choice((0, 0, 0, 0, 0, 0, 1, 2))
        for _ in range(depth):
            at += timedelta(hours=3)
            parent, name = name, self._codex_id(at)
            copied = [
                {**line, "timestamp": _iso(at)} for line in lines if line["type"] != "session_meta"
            ]
            lines = [self._codex_meta(name, at, project, parent), *copied]
            lines += self._codex_turns(name, at + timedelta(seconds=20), 3, total, "", project)
            self.write(self._rollout(name, at), lines)

    def _codex_id(self, at: datetime) -> str:
        return f"019f{self.random.getrandbits(16):04x}-{self.random.getrandbits(16):04x}-7000-8000-{self.random.getrandbits(48):012x}"

    def _rollout(self, name: str, at: datetime) -> Path:
        return (
            self.home
            / ".codex"
            / "sessions"
            / f"{at:%Y/%m/%d}"
            / f"rollout-{at:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
        )

    def _codex_meta(
        self, name: str, at: datetime, project: str, parent: str = ""
    ) -> dict[str, Any]:
        payload = {
            "id": name, "timestamp": _iso(at), "cwd": f"/home/dev/{project}", "originator": "codex_cli_rs",
            "cli_version": "0.145.0", "source": "cli", "model_provider": "openai", "instructions": self.text(2_000),
        }  # fmt: skip
        if parent:
            payload["forked_from_id"] = parent
        return {"timestamp": _iso(at), "type": "session_meta", "payload": payload}

    def _codex_turns(
        self, name: str, at: datetime, turns: int, total: dict[str, int], tier: str, project: str
    ) -> Iterator[dict[str, Any]]:
        random = self.random
        settings = {
            "model": "gpt-5.4",
            "model_provider_id": "openai",
            "service_tier": tier or "default",
        }
        yield {
            "timestamp": _iso(at),
            "type": "turn_context",
            "payload": {"cwd": f"/home/dev/{project}", "model": "gpt-5.4", "effort": "medium"},
        }
        yield {
            "timestamp": _iso(at),
            "type": "event_msg",
            "payload": {"type": "thread_settings_applied", "thread_settings": settings},
        }
        context = random.randrange(9_000, 16_000)
        for turn in range(turns):
            at += timedelta(seconds=random.randrange(15, 120), milliseconds=random.randrange(1_000))
            yield {
                "timestamp": _iso(at),
                "type": "response_item",
                "payload": {
                    "type": "function_call_output",
                    "output": self.text(self.bytes_per_line * 2),
                },
            }
            last = {
                "input_tokens": context, "cached_input_tokens": context * 9 // 10 if turn else 0,
                "output_tokens": random.randrange(50, 900), "reasoning_output_tokens": 32,
            }  # fmt: skip
            for key, value in last.items():
                total[key] += value
            info = {
                "total_token_usage": {**total, "total_tokens": total["input_tokens"] + total["output_tokens"]},
                "last_token_usage": {**last, "total_tokens": last["input_tokens"] + last["output_tokens"]},
                "model_context_window": 272_000,
            }  # fmt: skip
            limits = {
                "primary": {"used_percent": min(99.0, turn * 1.5), "window_minutes": 300, "resets_at": int(at.timestamp()) // 18_000 * 18_000 + 18_000},
                "secondary": {"used_percent": 12.0, "window_minutes": 10_080, "resets_at": int(at.timestamp()) // 604_800 * 604_800 + 604_800},
                "plan_type": "plus",
            }  # fmt: skip
            event = {
                "timestamp": _iso(at),
                "type": "event_msg",
                "payload": {"type": "token_count", "info": info, "rate_limits": limits},
            }
            yield event
            if random.random() < 0.2:
                yield {**event, "timestamp": _iso(at + timedelta(milliseconds=100))}
            self.calls.append(
                Billed("codex", "gpt-5.4", at, last["input_tokens"], last["output_tokens"],
                       cached=last["cached_input_tokens"], reasoning=32, tier=tier, project=project, session=name)
            )  # fmt: skip
            context += random.randrange(300, 2_500)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def write_sessions(home: Path, sessions: int, size: int, seed: int = 41) -> list[Billed]:
    """Write about so many sessions and bytes below a home folder; return what was billed."""
    return write_folder(home, sessions, size, seed).calls


def write_folder(home: Path, sessions: int, size: int, seed: int = 41) -> Folder:
    """Do the same, and return what else is known of the sessions."""
    turns = 40
    per_line = max(200, size // max(1, sessions) // turns // 4)
    folder = Folder(home, random.Random(seed), per_line)
    at = START
    for number in range(sessions):
        at += timedelta(minutes=folder.random.randrange(60, 400))
        own = max(3, int(folder.random.gauss(turns, turns / 3)))
        if number % 4 == 3:
            folder.add_codex(at, own)
        else:
            folder.add_claude(at, own)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=300)
    options = parser.parse_args()
    calls = write_sessions(options.home, options.sessions, options.megabytes * 1_000_000)
    written = sum(path.stat().st_size for path in options.home.rglob("*.jsonl"))
    files = sum(1 for _ in options.home.rglob("*.jsonl"))
    print(f"{len(calls):,} calls in {files:,} files of {written / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
