"""Writes what docs/sources.md says about adapters from the adapters: `make sources`.

Their rows of the table are those with a link to a section below; what a source lacks is what none
of its adapter's expected records has.
"""

import re
from pathlib import Path
from typing import Final

import detectors.formats.adapters as room
from detectors.formats.adapters import adapters

GUIDE: Final = Path(__file__).parents[1] / "docs" / "sources.md"
ROOM: Final = Path(room.__file__).parent
BEGIN: Final = "<!-- From the adapters; `make sources` writes what follows. -->\n"
OWN_ROW: Final = re.compile(r"^\| \[[^\]]+\]\(#")
# A field, what a source without it lacks, and the detectors that this costs.
LACKS: Final = (
    ("prefix_hash", "prompt hashes", "Missed prompt caching, Unbatched calls: no savings"),
    ("declared_max_tokens", "limits on answers", "max_tokens misfit"),
    ("latency_ms", "latency", "Unbatched calls: less certain"),
    ("tag", "routes", "findings per model only"),
)


def make_source_guide(text: str) -> str:
    """Return the guide with the rows and sections of today's adapters."""
    before, _, _ = text.partition(BEGIN)
    head, table, tail = _split(before)
    rows = [row for row in table if not OWN_ROW.match(row)]
    sections = [_section(name) for name in _ordered()]
    own = [_row(name) for name in _ordered()]
    return "\n".join([*head, *rows, *own, *tail]) + BEGIN + "\n" + "\n".join(sections)


def _ordered() -> list[str]:
    return sorted(adapters(), key=lambda name: adapters()[name].title.lower())


def _split(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines before the table, those of the table, and those after it."""
    lines = text.split("\n")
    begin = next(number for number, line in enumerate(lines) if line.startswith("| source"))
    end = next(n for n, line in enumerate(lines) if n > begin and not line.startswith("|"))
    return lines[:begin], lines[begin:end], lines[end:]


def _row(name: str) -> str:
    title, text = adapters()[name].title, _documentation(name)
    how = re.search(r"\*\*Bring them in:\*\*[^`]*(`[^`]+`)", text)
    expected = (ROOM / name.replace(".", "/") / "expected.jsonl").read_text()
    lacks = [(what, costs) for field, what, costs in LACKS if f'"{field}":' not in expected]
    missing = ", ".join(what for what, _ in lacks) or "nothing"
    costs = "; ".join(dict.fromkeys(costs for _, costs in lacks)) or "none"
    return f"| [{title}](#{_anchor(title)}) | {how[1] if how else ''} | {missing} | {costs} |"


def _section(name: str) -> str:
    _, _, body = _documentation(name).partition("\n")
    return f"## {adapters()[name].title}\n{body}"


def _documentation(name: str) -> str:
    return (ROOM / name.replace(".", "/") / "README.md").read_text()


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    GUIDE.write_text(make_source_guide(GUIDE.read_text()))
