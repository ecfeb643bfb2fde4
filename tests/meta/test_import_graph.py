"""No file imports itself through others: in the service, the detectors or the client."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.cases import each_case

ROOT = Path(__file__).parents[2]
PACKAGES = {"service": ROOT, "detectors": ROOT, "tallystick": ROOT / "client"}


def _modules(package: str) -> dict[str, Path]:
    root = PACKAGES[package]
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def _imported(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield each import as the module and the name taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [node.module])])
            yield from ((base, alias.name) for alias in node.names)


def _graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    graph = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = _imported(ast.parse(path.read_text()), package)
        targets = {
            module if f"{module}.{taken}" not in modules else f"{module}.{taken}"
            for module, taken in found
        }
        graph[name] = (targets & modules.keys()) - {name}
    return graph


@each_case("package", PACKAGES)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    modules = _modules(package)
    assert len(modules) > 10
    TopologicalSorter(_graph(modules)).prepare()


def test_a_circle_is_found_however_it_is_written(tmp_path: Path) -> None:
    sources = {
        "room.one": "from room import two",
        "room.two": "def late():\n    from .three import thing",
        "room.three": "import room.one",
    }
    modules = {}
    for name, source in sources.items():
        modules[name] = tmp_path / f"{name}.py"
        modules[name].write_text(source)
    with pytest.raises(CycleError):
        TopologicalSorter(_graph(modules)).prepare()
