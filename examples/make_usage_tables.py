"""Writes the usage reader's `tables.py`: `make usage`.

It has the price book's own extractors, and what `fields.toml` adds to them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from genai_prices.data_snapshot import get_snapshot

from detectors.formats.json_logs import usage

DATA: Final = Path(usage.__file__).with_name("fields.toml")
UNPRICED: Final = "unpriced"
COPY: Final = "copy"
_ABOUT: Final = ("source", "about", "snake_case")
_LIST: Final = re.compile(r"(\w+)\[(?:(\w+)=(\w+))?\]")
_SNAKE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Where the book's extractors of a root belong; a flavor that none of these names is of no family.
_FAMILIES: Final = {
    "usageMetadata": "gemini",
    "tokenUsage": "camel",
    "usage.billed_units": "cohere",
    "meta.billed_units": "cohere",
    "usage.tokens": "cohere",
}
# What the book says of text is what remains of a whole; of a tool's input, the whole is enough.
_PART_OF: Final = re.compile(r"(?:input|output|cache)_text_|_tool_tokens\Z")
_WHOLES: Final = frozenset(("input_tokens", "output_tokens"))


def read_data() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text())


def own_fields(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the family, the path and the role of each field of our data."""
    for family, entry in data["families"].items():
        for fields in entry["fields"]:
            for role, paths in fields.items():
                if role not in _ABOUT:
                    yield from ((family, path, role) for path in paths)


def book_fields() -> Iterator[tuple[str, str, str]]:
    """Yield the same of the price book's extractors."""
    for provider in get_snapshot().providers:
        for extractor in provider.extractors or ():
            root = ".".join(_steps(extractor.root))
            found: dict[str, list[str]] = {}
            for mapping in extractor.mappings:
                found.setdefault(".".join(_steps(mapping.path)), []).append(mapping.dest)
            family, prefix = _family_of(root, next(iter(found)))
            for path, usages in found.items():
                yield family, prefix + path, _role_of(usages, path)


def _family_of(root: str, first: str) -> tuple[str, str]:
    if root.endswith("billed_units"):
        return "cohere", "billed_units."
    if first.startswith("tokens."):
        return "cohere", ""
    if first in ("inputTokens", "inputTokenCount"):
        return "camel", ""
    return _FAMILIES.get(root, "tokens"), ""


def _role_of(usages: list[str], path: str) -> str:
    """Return the usage that a field counts; what it is added to is the dialect's matter."""
    own = [usage for usage in usages if usage not in _WHOLES] or usages
    if "toolUsePromptTokenCount" in path:
        return "apart"
    if path.startswith("tokens."):
        return "read_input" if "input" in path else "read_output"
    named = [usage for usage in own if not _PART_OF.search(usage)]
    # Tools' results by modality are input, beside those of the prompt, which the book adds up.
    is_part = not named or "toolUsePromptTokensDetails" in path
    return "part" if is_part else named[0]


def _steps(path: Any) -> list[str]:
    if isinstance(path, str):
        return [path]
    steps: list[str] = []
    for step in path:
        if isinstance(step, str):
            steps.append(step)
        else:
            steps[-1] += f"[{step.field}={step.match.equals}]"
    return steps


def all_fields() -> dict[str, dict[str, str]]:
    """Return the role of each path, by family; our data comes before the book's."""
    data = read_data()
    found: dict[str, dict[str, str]] = {family: {} for family in data["families"]}
    for family, path, role in (*own_fields(data), *book_fields()):
        for spelling in _spellings(path, data["families"][family]):
            before = found[family].setdefault(spelling, role)
            if before != role and role != "part" and before != "apart":
                raise ValueError(f"{family}: {path} is both {before} and {role}")
    return found


def _spellings(path: str, family: Mapping[str, Any]) -> list[str]:
    if not family.get("snake_case"):
        return [path]
    names = re.sub(r"=\w+", lambda value: value.group().lower().upper(), path)
    return [path, re.sub(r"(?<![=A-Z])[A-Za-z]+(?![A-Z\]])", _snake, names)]


def _snake(match: re.Match[str]) -> str:
    return _SNAKE.sub("_", match.group()).lower()


def tree_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the paths as nested names.

    A list is a pair: the member by which its items differ, and the names by its value. A name that
    may be a number or an object has the number's role under "".
    """
    tree: dict[str, Any] = {}
    for path, role in fields.items():
        if role != UNPRICED:
            _plant(tree, path.split("."), () if role == COPY else role)
    return tree


def flat_of(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the names whose dots are no steps."""
    return {name: () if role == COPY else role for name, role in fields.items() if role != UNPRICED}


def _plant(tree: dict[str, Any], steps: list[str], role: Any) -> None:
    step, *rest = steps
    found = _LIST.fullmatch(step)
    if found:
        name, key, value = found.groups()
        kinds = tree.setdefault(name, (key or "", {}))[1]
        _plant(kinds.setdefault((value or "").upper(), {}), rest, role)
    elif rest == ["*"]:
        tree[step] = ()
    elif rest:
        inner = tree.get(step, {})
        if not isinstance(inner, dict):
            inner = {"": inner}
        tree[step] = inner
        _plant(inner, rest, role)
    elif isinstance(tree.get(step), dict):
        tree[step][""] = role
    else:
        tree[step] = role


def dialects(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        each["name"]: {
            "family": each["family"],
            "signs": tuple(each["signs"]),
            "leaves_out": tuple(each.get("leaves_out", ())),
            **{
                flag: True
                for flag in ("adds_up", "is_open", "fills", "may_lack_output", "is_billed")
                if each.get(flag)
            },
        }
        for each in data["dialects"]
    }


def compiled() -> str:
    """Return the text of `tables.py`."""
    data = read_data()
    families = {
        family: (flat_of if data["families"][family].get("flat") else tree_of)(fields)
        for family, fields in all_fields().items()
    }
    providers = {name: tuple(each["leaves_out"]) for name, each in data["providers"].items()}
    tables: dict[str, dict[str, Any]] = {
        "FAMILIES": families,
        "DIALECTS": dialects(data),
        "PROVIDERS": providers,
    }
    body = "\n".join(
        f"{name}: dict[str, Any] = {{\n{_lines_of(value)}\n}}" for name, value in tables.items()
    )
    return (
        '"""The names of usage objects\' fields; written by `make usage`, see `fields.toml`."""\n\n'
        "# ruff: noqa\n# fmt: off\nfrom __future__ import annotations\n\nfrom typing import Any\n\n"
        f"{body}\n"
    )


def _lines_of(table: Mapping[str, Any]) -> str:
    """Return the entries of a table, each from the start of a line on."""
    # Without spaces, a name and its role stay on one line.
    entries = (f"{name!r}: {repr(value).replace(': ', ':')}," for name, value in table.items())
    return "\n".join(fill(each, 96, subsequent_indent=" " * 4) for each in entries)


if __name__ == "__main__":
    sys.stdout.write(compiled())
