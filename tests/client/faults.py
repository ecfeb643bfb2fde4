"""Faults, put into the client at will: every statement of its functions first asks whether to fail.

A trace function would be shorter, but one that raises makes CPython 3.11 crash now and then.
"""

from __future__ import annotations

import ast
import builtins
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType

import tallystick

FOLDER = Path(tallystick.__file__).parent
Line = tuple[str, int]
_ASK = "__tallystick_fault__"


class InjectedError(Exception):
    """Nothing that a library could mean."""


class Watch:
    """Notes the lines that this thread comes to, and fails once at one of them."""

    def __init__(self, target: Line | None = None) -> None:
        self.target = target
        self.lines: dict[Line, None] = {}
        self.has_failed = False
        self._thread = threading.get_ident()

    def __enter__(self) -> Watch:
        setattr(builtins, _ASK, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        setattr(builtins, _ASK, _never)

    def _ask(self, file: str, number: int) -> None:
        if threading.get_ident() == self._thread:
            self.lines[file, number] = None
            if (file, number) == self.target and not self.has_failed:
                self.has_failed = True
                raise InjectedError


def _never(file: str, number: int) -> None:
    return


def text_of(line: Line) -> str:
    return Path(line[0]).read_text().splitlines()[line[1] - 1].strip()


def lines_of(path: Path) -> set[Line]:
    """Of every statement of every function of a file."""
    asker = _Asker(path)
    asker.visit(ast.parse(path.read_text()))
    return asker.lines


@contextmanager
def asking() -> Iterator[None]:
    """The client's functions, those that are set as hooks too, with the question in each line."""
    codes = {code: changed for path in FOLDER.rglob("*.py") for code, changed in _changed(path)}
    gc.unfreeze()  # or what is frozen would not be reported
    functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    gc.freeze()
    originals = {one: one.__code__ for one in functions if _key(one.__code__) in codes}
    setattr(builtins, _ASK, _never)
    for function, code in originals.items():
        function.__code__ = codes[_key(code)]
    try:
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code


Key = tuple[str, str, int]


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _changed(path: Path) -> Iterator[tuple[Key, CodeType]]:
    tree = _Asker(path).visit(ast.parse(path.read_text()))
    left = [compile(ast.fix_missing_locations(tree), str(path), "exec")]
    while left:
        code = left.pop()
        left.extend(one for one in code.co_consts if isinstance(one, CodeType))
        yield _key(code), code


class _Asker(ast.NodeTransformer):
    """Puts the question before every statement of a function; what it ends with has none."""

    def __init__(self, path: Path) -> None:
        self._file = str(path)
        self._depth = 0
        self.lines: set[Line] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def _visit_function(self, node: ast.AST) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if self._depth and isinstance(block, list):
                setattr(node, name, [one for each in block for one in self._asked(each)])
        return node

    def _asked(self, statement: ast.stmt) -> list[ast.stmt]:
        is_words = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_words or isinstance(statement, (ast.Try, ast.Global)):
            return [statement]  # nothing is done here
        self.lines.add((self._file, statement.lineno))
        arguments: list[ast.expr] = [ast.Constant(self._file), ast.Constant(statement.lineno)]
        ask = ast.Expr(ast.Call(ast.Name(_ASK, ast.Load()), arguments, []))
        return [ast.copy_location(ask, statement), statement]
