"""Compare the names that the reader of usage knows with those of the providers' libraries.

`make usage-drift` fails where a library knows a number that we don't; `make check` runs it. Those
of libraries that are not installed are in `libraries.json`, with the versions of their locks. After
`make lock`, `make usage-libraries` writes that file, and a test fails until then.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from detectors.formats.json_logs.usage.tables import FAMILIES
from examples.make_usage_tables import UNPRICED, all_fields
from tests.cases import data_of
from tests.client.environments import environment_python, run
from tests.detectors.formats.usage import numbers as numbers_module


class Library(NamedTuple):
    """A library that is not installed: its lock, and its types with the family of their names."""

    lock: str
    types: list[list[str]]


TABLES: Final = data_of(__file__)
ELSEWHERE: Final = {name: Library(**library) for name, library in TABLES["elsewhere"].items()}
LIBRARIES: Final = Path(__file__).with_name("libraries.json")
REQUIREMENTS: Final = Path(__file__).parents[4] / "requirements"
# Members that are no numbers of a call: an ID of a map, and a limit of the connection.
NO_NUMBERS: Final = frozenset(("connectors",))
_LIST: Final = re.compile(r"\[[^]]*\]")


def locked_versions() -> dict[str, str]:
    """Return the versions of the libraries that are not installed, as their locks have them."""
    return {
        name: re.findall(
            rf"^{name}==(\S+)", (REQUIREMENTS / library.lock).read_text(), re.MULTILINE
        )[0]
        for name, library in ELSEWHERE.items()
    }


def numbers_elsewhere() -> dict[str, Any]:
    """Return the numbers of the libraries that are not installed; makes their environments."""
    found = {}
    for name, library in ELSEWHERE.items():
        python = environment_python(REQUIREMENTS / library.lock)
        addresses = [address for _, address in library.types]
        numbers = json.loads(run(python, "-m", numbers_module.__name__, *addresses))
        found[name] = {"version": locked_versions()[name], "numbers": numbers}
    return found


def all_numbers() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each type of usage that a library has: its family, its address and its numbers."""
    for family, address in TABLES["installed"]:
        yield family, address, numbers_module.numbers_at(address)
    known = json.loads(LIBRARIES.read_text())
    for name, library in ELSEWHERE.items():
        for family, address in library.types:
            yield family, address, known[name]["numbers"][address]


def numbers_of_bedrock() -> Iterator[str]:
    """Yield the paths of Bedrock's `TokenUsage`, from botocore's model of the service."""
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    yield from _numbers_of_shape(service.shape_for("TokenUsage"), "")


def _numbers_of_shape(shape: Any, prefix: str) -> Iterator[str]:
    for name, member in shape.members.items():
        inner = member.member if member.type_name == "list" else member
        if inner.type_name == "structure":
            yield from _numbers_of_shape(inner, f"{prefix}{name}.")
        elif inner.type_name in ("integer", "long", "float", "double"):
            yield prefix + name


def is_known(path: str, tree: Mapping[str, Any]) -> bool:
    """Check whether a path is in a family's names."""
    name, _, rest = path.partition(".")
    if name not in tree:
        return False
    inner = tree[name]
    if inner == () or (not rest and isinstance(inner, str)):
        return True
    if isinstance(inner, tuple):
        return any(is_known(rest, kind) for kind in inner[1].values())
    if not isinstance(inner, dict):
        return False
    return is_known(rest, inner) if rest else "" in inner


def unknown_numbers(families: Mapping[str, Any] = FAMILIES) -> list[str]:
    """Return the numbers that a library knows and we don't."""
    fields = [item for family in all_fields().values() for item in family.items()]
    unpriced = {_LIST.sub("", path) for path, role in fields if role == UNPRICED}
    found = [
        f"{address}: {path}"
        for family, address, numbers in all_numbers()
        for path in numbers
        if path not in NO_NUMBERS and not is_known(path, families[family]) and path not in unpriced
    ]
    found += [
        f"botocore TokenUsage: {path}"
        for path in numbers_of_bedrock()
        if not is_known(path, families["camel"])
    ]
    return found + unknown_attributes(families)


def unknown_attributes(families: Mapping[str, Any] = FAMILIES) -> list[str]:
    """Return the usage attributes of OpenTelemetry's conventions that spans are not read for."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    names = [name for name in vars(gen_ai_attributes).values() if isinstance(name, str)]
    usage = [name for name in names if name.startswith("gen_ai.usage.")]
    return [f"OpenTelemetry: {name}" for name in usage if name not in families["spans"]]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        LIBRARIES.write_text(json.dumps(numbers_elsewhere(), indent=2, sort_keys=True) + "\n")
    missing = unknown_numbers()
    sys.stdout.write("".join(f"{each}\n" for each in missing))
    sys.exit(bool(missing))
