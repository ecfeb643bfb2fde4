"""Environments of their own: other versions of the providers' libraries, other interpreters."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CLIENT: Final = ROOT / "client"
LOCKS: Final = ROOT / "requirements" / "libraries"
FOLDER: Final = ROOT / "var" / "client"
OLDEST: Final = (3, 9)
NEWEST: Final = (3, 15)


def environment_python(lock: Path, interpreter: str = sys.executable) -> str:
    """The interpreter of an environment with exactly what the lock names; made once per lock."""
    version = run(interpreter, "-c", "import sys; print('%s.%s' % sys.version_info[:2])").strip()
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:8]
    folder = FOLDER / f"{lock.stem}-python{version}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv("venv", "--quiet", "--python", interpreter, str(folder))
        install = ("pip", "install", "--quiet", "--require-hashes", "--python", str(python))
        uv(*install, "--requirements", str(lock))
        (folder / "whole").touch()
    return str(python)


def uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True, timeout=600)


def run(python: str, *arguments: str, **environment: str) -> str:
    """What a program prints that can import the client and the tests; it must end well."""
    finished = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env=plain_environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3_000:]
    return finished.stdout


def plain_environment(**more: str) -> dict[str, str]:
    """Nothing of what the tests themselves run with, where it could change what a program does."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": f"{CLIENT}{os.pathsep}{ROOT}", **more}


@functools.cache
def interpreters() -> dict[str, str]:
    """Every Python of this machine that the client is for, by its version; each version once.

    Those of pyenv come first: what it puts on the PATH are shell scripts, which are slow.
    """
    found = {"{}.{}".format(*sys.version_info[:2]): sys.executable}
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        name = f"3.{minor}"
        for path in (*_of_pyenv(name), shutil.which(f"python{name}")):
            if path is not None and name not in found and _works(path, name):
                found[name] = path
    return found


def _of_pyenv(name: str) -> list[str]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [str(path) for path in sorted(versions.glob(f"{name}.*/bin/python{name}"))]


def _works(path: str, name: str) -> bool:
    program = "import sys; print('%s.%s' % sys.version_info[:2])"
    finished = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
    return finished.returncode == 0 and finished.stdout.strip() == name
