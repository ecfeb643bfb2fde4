"""The price book of a TOML file with discounts, negotiated rates and aliases."""

from pathlib import Path
from typing import TYPE_CHECKING

from detectors.cli.console import BadInputError, shown
from detectors.errors import PriceTermsError

if TYPE_CHECKING:
    from detectors import PriceBook


def find_update() -> "PriceBook | None":
    # Imported here because the prices take time to load.
    from detectors.prices.updates import default_file, load

    return load() if default_file().exists() else None


def read_prices(file: Path) -> "PriceBook":
    from detectors.prices.agreed.bounds import MAX_BYTES, decode
    from detectors.prices.updates import load

    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        return load().with_toml(decode(content))
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{shown(file)} is not TOML: {error}") from error
    except PriceTermsError as error:
        raise BadInputError(f"{shown(file)}: {error}") from error
