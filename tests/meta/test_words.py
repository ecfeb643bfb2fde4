"""Retired words stay out of what people read: pages, messages, docs, docstrings and comments.

docs/glossary.md has the words to use instead. Names in the code are checked for some of them, and
names of tests for all.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.cases import data_of, each_case

ROOT: Final = Path(__file__).parents[2]

TABLES: Final = data_of(__file__)
RETIRED_NAMES: Final = frozenset(TABLES["retired_names"])
# Names of other libraries, and of public JSON.
ALLOWED_NAMES: Final = frozenset({"echo", "echoes_dropped"})
_WORDS: Final = re.compile(rf"\b(?:{'|'.join(TABLES['retired'])})\b", re.IGNORECASE)
_PARTS_OF_NAMES: Final = re.compile("|".join(RETIRED_NAMES), re.IGNORECASE)
# `24.4%`; "5 %%" of a format string counts, a modulo in code does not reach here.
_SPACED_PERCENT: Final = re.compile("(?:[0-9}][ \\u00a0\\u202f]|&nbsp;)%(?!\\})")

# Code between backticks, addresses and the templates' own syntax are not prose.
_MARKUP: Final = re.compile(
    r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+|<script.*?</script>|\{%.*?%\}|\{#.*?#\}",
    re.DOTALL,
)


def test_no_retired_word_is_used() -> None:
    found = [hit for path, text in _texts() for hit in _hits(path, text)]
    assert not found, "\n".join(found)


@each_case(
    "text",
    ["months are Reckoned", "the dearest calls", "24.4 % of it", "24.4\u202f%", "nobody is told"],
)
def test_retired_words_are_noticed_however_they_are_written(text: str) -> None:
    assert list(_hits("docs/example.md", text))


@each_case("text", ["24.4% of it", "a dearestless `dearest`", "{{ share }}% of it"])
def test_other_words_and_code_pass(text: str) -> None:
    assert not list(_hits("docs/example.md", text))


def test_apostrophes_are_straight() -> None:
    """Texts of templates and of the code stand side by side on a page, in a mail and in a PDF."""
    files = (
        *_files(TABLES["prose"], (".md", ".html", ".txt")),
        *_files((*TABLES["code"], "tests/meta"), (".py",)),
        *_files(("service/web/static",), (".js",)),
    )
    curly = {path.relative_to(ROOT).as_posix() for path in files if "\u2019" in path.read_text()}
    assert curly == set()


def test_no_name_in_the_code_uses_a_retired_word() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in _files(TABLES["code"], (".py",))
        if _PARTS_OF_NAMES.search(path.read_text())
        for name in _tokens(path)[tokenize.NAME] - ALLOWED_NAMES
        if RETIRED_NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    }
    assert not found, "\n".join(sorted(found))


def test_no_test_name_uses_a_retired_word() -> None:
    defined = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
    names = {
        name for path in _files(("tests",), (".py",)) for name in defined.findall(path.read_text())
    }
    found = [name for name in names if _WORDS.search(name.replace("_", " "))]
    assert names
    assert not found, "\n".join(sorted(found))


@cache
def _tokens(path: Path) -> dict[int, set[str]]:
    """Return a file's names and comments; to take all files to pieces takes seconds."""
    found: dict[int, set[str]] = {tokenize.NAME: set(), tokenize.COMMENT: set()}
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in found:
                found[token.type].add(token.string)
    return found


def test_every_exception_is_needed() -> None:
    texts: dict[str, str] = {}
    for path, text in _texts():
        texts[path] = f"{texts.get(path, '')}\n{text}"
    for path, (words, reason) in TABLES["allowed"].items():
        used = {match.group().lower() for match in _matches(texts[path])}
        assert set(words) <= used, f"{path} no longer needs {set(words) - used}: {reason}"


def _hits(path: str, text: str) -> Iterator[str]:
    allowed, _reason = TABLES["allowed"].get(path, ([], ""))
    for match in _matches(text):
        if match.group().lower() not in allowed:
            around = text[max(0, match.start() - 30) : match.end() + 30]
            yield f"{path}: {match.group()!r} in {' '.join(around.split())!r}"


def _matches(text: str) -> Iterator[re.Match[str]]:
    prose = _MARKUP.sub(lambda match: " " * len(match.group()), text)
    yield from _WORDS.finditer(prose)
    yield from _SPACED_PERCENT.finditer(prose)


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    return tuple(_read_texts())


def _read_texts() -> Iterator[tuple[str, str]]:
    for path in _files(TABLES["prose"], (".md", ".html", ".txt")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    for path in _files(TABLES["code"], (".py",)):
        name = path.relative_to(ROOT).as_posix()
        code = path.read_text()
        yield from ((name, text) for text in _strings(ast.parse(code)))
        # A "#" in a string begins no comment: only a file with a word after one is taken to pieces.
        if any(any(_matches(text)) for text in re.findall("#.*", code)):
            yield from ((name, text) for text in _tokens(path)[tokenize.COMMENT])


def _files(roots: tuple[str, ...], endings: tuple[str, ...]) -> Iterator[Path]:
    for root in roots:
        top = ROOT / root
        found = sorted(top.rglob("*")) if top.is_dir() else [top]
        yield from (path for path in found if path.suffix in endings)


def _strings(tree: ast.AST) -> Iterator[str]:
    """Yield docstrings and string literals that may be prose; f-strings whole."""
    pieces: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces.update(map(id, node.values))
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield "".join(map(str, parts))
        # The walk is breadth-first, so an f-string comes before its pieces.
        elif isinstance(node, ast.Constant) and id(node) not in pieces:
            yield node.value if isinstance(node.value, str) else ""
