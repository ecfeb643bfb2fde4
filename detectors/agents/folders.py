"""Where coding agents keep their sessions, on every system, and which files have changed."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

JSON_LINES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")
JSON_FILES: Final = (*JSON_LINES, ".json")
_TASKS: Final = ("ui_messages.json",)
_NAME: Final = attrgetter("name")


class Source(NamedTuple):
    """A folder that an agent may have; without an adapter we know the agent, but not its files."""

    agent: str
    folder: Path
    adapter: str | None
    endings: tuple[str, ...] = JSON_LINES
    within: str = ""  # a folder that is part of each file's path
    is_deep: bool = True


class File(NamedTuple):
    path: str
    source: Source
    size: int
    mtime_ns: int
    inode: int


NAMES: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini-cli": "Gemini CLI",
    "qwen-code": "Qwen Code",
    "opencode": "opencode",
    "cline": "Cline",
    "roo-code": "Roo Code",
    "kilo-code": "Kilo Code",
    "amp": "Amp",
    "copilot-cli": "Copilot CLI",
}
_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS: Final = {
    "cline": "saoudrizwan.claude-dev",
    "roo-code": "rooveterinaryinc.roo-cline",
    "kilo-code": "kilocode.kilo-code",
}


def find_sources(env: Mapping[str, str], home: Path) -> list[Source]:
    """Return the folders of every agent that we know, whether they exist or not."""

    def at(name: str, *parts: str) -> Path:
        return Path(env[name]) if env.get(name) else home.joinpath(*parts)

    config, data = at("XDG_CONFIG_HOME", ".config"), at("XDG_DATA_HOME", ".local", "share")
    listed = [Path(each.strip()) for each in env.get("CLAUDE_CONFIG_DIR", "").split(",") if each]
    claude = [
        each if each.name == "projects" else each / "projects"
        for each in listed or (config / "claude", home / ".claude")
    ]
    codex = at("CODEX_HOME", ".codex")
    opencode = Path(env.get("OPENCODE_DATA_DIR") or data / "opencode")
    databases = (("opencode", opencode, "opencode.db"), ("kilo-code", data / "kilo", "kilo.db"))
    copilot = home / ".copilot"
    exported = Path(env.get("COPILOT_OTEL_FILE_EXPORTER_PATH") or copilot / "otel" / ".jsonl")
    cline = Path(env.get("CLINE_DATA_DIR") or at("CLINE_DIR", ".cline") / "data")
    gemini = at("GEMINI_CLI_HOME") / ".gemini" / "tmp"
    support = home / "Library" / "Application Support"
    if sys.platform == "win32":
        support = at("APPDATA", "AppData", "Roaming")
    elif sys.platform != "darwin":
        support = config
    editors = [support / name for name in _EDITORS] + [home / ".vscode-server" / "data"]
    return [
        *(Source("claude-code", folder, "claude_code") for folder in dict.fromkeys(claude)),
        *(Source("codex", codex / name, "codex") for name in ("sessions", "archived_sessions")),
        Source("gemini-cli", gemini, "gemini_cli", JSON_FILES, "chats"),
        Source("qwen-code", home / ".qwen" / "projects", "qwen_code", JSON_FILES, "chats"),
        *(
            source
            for agent, folder, database in databases
            for source in (
                Source(agent, folder, "opencode", (database,), is_deep=False),
                Source(agent, folder / "storage" / "message", "opencode", (".json",)),
            )
        ),
        Source(
            "cline",
            Path(env.get("CLINE_SESSION_DATA_DIR") or cline / "sessions"),
            "cline",
            (".messages.json",),
        ),
        Source("cline", cline / "tasks", "cline", _TASKS),
        *(
            Source(agent, each / "User" / "globalStorage" / extension / "tasks", "cline", _TASKS)
            for agent, extension in _EXTENSIONS.items()
            for each in editors
        ),
        Source("amp", data / "amp" / "threads", "amp", (".json",)),
        Source(
            "copilot-cli", exported.parent, "copilot_cli", (exported.name.lower(),), is_deep=False
        ),
        Source("copilot-cli", copilot / "session-state", None),
        Source("Crush", home / ".crush", None),
        Source("Goose", data / "goose" / "sessions", None),
    ]


def find_files(source: Source, problems: list[str]) -> Iterator[File]:
    """Yield the files of a source at any depth; links to folders are followed once."""
    waiting, seen = [str(source.folder)], set[tuple[int, int]]()
    while waiting:
        folder = waiting.pop()
        try:
            found = os.stat(folder)
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            entries = sorted(os.scandir(folder), key=_NAME)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}")
            continue
        for entry in entries:
            if entry.is_dir():
                waiting += [entry.path] if source.is_deep else []
            elif entry.name.lower().endswith(source.endings) and (
                not source.within or source.within in Path(entry.path).parts
            ):
                try:
                    status = entry.stat()
                except OSError as error:
                    problems.append(f"{entry.path}: {error.strerror}")
                    continue
                size, mtime = status.st_size, status.st_mtime_ns
                if not source.is_deep:  # what was written last is in the log beside it
                    with suppress(OSError):
                        log = os.stat(f"{entry.path}-wal")
                        size, mtime = size + log.st_size, max(mtime, log.st_mtime_ns)
                yield File(entry.path, source, size, mtime, status.st_ino)


def data_folder(env: Mapping[str, str], home: Path) -> Path:
    return Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "tallystick"
