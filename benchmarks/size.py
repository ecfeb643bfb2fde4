"""Print how much code there is: `make size`."""

import ast
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Final

from service.config import Config
from service.models import Base

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("service", "detectors", "client", "worker.py")
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    product = {name: _find_modules(name) for name in PRODUCT}
    modules = [path for paths in product.values() for path in paths]
    lines, test_lines = _count_lines(modules), _count_lines(_find_modules("tests"))
    for name, paths in product.items():
        _print(f"lines of {name}", _count_lines(paths))
    _print("lines of product Python", lines)
    _print("modules", len(modules))
    _print("settings", len(fields(Config)))
    _print("tables", len(Base.metadata.tables))
    functions, once = map(sum, zip(*map(_count_functions, modules), strict=True))
    _print("functions", functions)
    _print("private functions used once", once, f"{once / functions:.1%} of functions")
    _print("lines of tests", test_lines, f"{test_lines / lines:.2f} × product")


def _find_modules(name: str) -> list[Path]:
    path = ROOT / name
    return [path] if path.is_file() else [p for p in path.rglob("*.py") if not p.is_symlink()]


def _count_lines(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def _count_functions(path: Path) -> tuple[int, int]:
    """Return how many functions a module has, and how many private ones it mentions only once."""
    functions, mentioned = list[str](), Counter[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, FUNCTIONS):
            functions.append(node.name)
        elif isinstance(node, ast.Name):
            mentioned[node.id] += 1
        elif isinstance(node, ast.Attribute):
            mentioned[node.attr] += 1
    private = [name for name in functions if name.startswith("_") and not name.endswith("__")]
    return len(functions), sum(mentioned[name] == 1 for name in private)


def _print(name: str, number: int, more: str = "") -> None:
    print(f"{name:30}{number:>10,}  {more}".rstrip())


if __name__ == "__main__":
    main()
