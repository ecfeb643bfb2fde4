"""Write the software bill of materials of what we ship, from the lock file: `make lock` runs this.

CycloneDX, without a time or a random number, so that it only changes with the contents.
"""

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements" / "service.lock"
SBOM: Final = ROOT / "requirements" / "sbom.cdx.json"
# `name[extra]==version ; marker \`
_PINNED: Final = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)(?: ; ([^\\]+?))? *\\?$", re.MULTILINE)
# Files in the repository that others wrote: the package on npm, and the files that we ship of it.
_STATIC: Final = "service/web/static/vendor"
_FONTS: Final = "service/reports/pdf/fonts"
VENDORED: Final = {
    "npm/@fontsource-variable/inter": ("INTER", [f"{_STATIC}/inter-{{}}-latin.woff2"]),
    "npm/htmx.org": ("HTMX", [f"{_STATIC}/htmx-{{}}.min.js"]),
    "npm/dejavu-fonts-ttf": (
        "DEJAVU",
        [f"{_FONTS}/DejaVuSansCondensed.ttf", f"{_FONTS}/DejaVuSansCondensed-Bold.ttf"],
    ),
    "deb/debian/fonts-tlwg-waree-ttf": ("WAREE", [f"{_FONTS}/Waree.ttf"]),
    "deb/debian/fonts-wqy-microhei": ("MICROHEI", [f"{_FONTS}/WenQuanYiMicroHei.ttc"]),
}


def make_sbom() -> str:
    """Return the document as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    root = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
        description=project["description"],
    )
    bom = Bom(components=[*_locked(), *_vendored()])
    bom.metadata.component = root
    bom.metadata.timestamp = None  # type: ignore[assignment]  # the output is the same every time
    bom.register_dependency(root, bom.components)
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return re.sub(r'\n "serialNumber": "[^"]*",', "", text) + "\n"


def _locked() -> Iterator[Component]:
    for name, version, marker in _PINNED.findall(LOCK.read_text()):
        yield Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"pypi:{name}@{version}",
            purl=PackageURL("pypi", None, name, version),
            properties=[Property(name="tallystick:marker", value=marker)] if marker else [],
        )


def _vendored() -> Iterator[Component]:
    makefile = (ROOT / "Makefile").read_text()
    for address, (variable, files) in VENDORED.items():
        found = re.search(rf"^{variable} := (\S+)$", makefile, re.MULTILINE)
        version = found[1] if found else "unknown"
        kind, _, package = address.partition("/")
        namespace, _, name = package.rpartition("/")
        yield Component(
            name=package if kind == "npm" else name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{kind}:{package}@{version}",
            purl=PackageURL(kind, namespace or None, name, version),
            components=[_file(path.format(version)) for path in files],
        )


def _file(path: str) -> Component:
    digest = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
    return Component(
        name=path,
        type=ComponentType.FILE,
        bom_ref=f"file:{path}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


if __name__ == "__main__":
    SBOM.write_text(make_sbom())
    sys.stdout.write(f"{SBOM.relative_to(ROOT)}\n")
