"""The templates, migrations, sample log and client, which lie beside the packages in a checkout.

A wheel has them inside this package: see `sources` in `pyproject.toml`.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(str(files("service")))
_PACKED: Final = _PACKAGE / "resources"
RESOURCES: Final = _PACKED if _PACKED.is_dir() else _PACKAGE.parent
