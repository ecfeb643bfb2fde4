"""The software bill of materials lists what we ship, and nothing else."""

import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SBOM = ROOT / "requirements" / "sbom.cdx.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SBOM.read_text())
    return found


def test_it_is_valid_cyclonedx() -> None:
    # Importing them takes a second, which only the process of this test has to spend.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(SBOM.read_text()) is None


def test_it_has_every_locked_package_with_its_version(document: dict[str, Any]) -> None:
    lock = (ROOT / "requirements" / "service.lock").read_text()
    locked = {
        f"{name}@{version}"
        for name, version in re.findall(r"^([^\s=\[]+)(?:\[[^]]*\])?==([^\s;\\]+)", lock, re.M)
    }
    listed = {
        one["purl"].removeprefix("pkg:pypi/")
        for one in document["components"]
        if one["purl"].startswith("pkg:pypi/")
    }
    assert len(locked) > 50
    assert listed == locked


def test_it_has_every_file_of_others_in_the_repository(document: dict[str, Any]) -> None:
    files = {
        file["name"]: file["hashes"][0]["content"]
        for one in document["components"]
        for file in one.get("components", [])
    }
    folders = ("service/web/static/vendor", "service/reports/pdf/fonts")
    ours = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in (ROOT / folder).iterdir()
        if "LICENSE" not in path.name
    }
    assert ours
    assert files == ours


def test_every_part_of_it_belongs_to_the_service(document: dict[str, Any]) -> None:
    assert document["metadata"]["component"]["name"] == "tallystick-server"
    [root] = [one for one in document["dependencies"] if one["ref"] == "tallystick-server"]
    assert set(root["dependsOn"]) == {one["bom-ref"] for one in document["components"]}


def test_it_is_what_make_lock_writes_now() -> None:
    path = ROOT / "requirements" / "make_sbom.py"
    spec = importlib.util.spec_from_file_location("make_sbom", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.make_sbom() == SBOM.read_text(), "run make lock"
    assert "make_sbom.py" in (ROOT / "Makefile").read_text()
