"""The price book of a TOML file with discounts, negotiated rates and aliases."""

from pathlib import Path
from typing import TYPE_CHECKING

import detectors
from detectors.cli.console import BadInputError, shown
from detectors.errors import PriceTermsError

if TYPE_CHECKING:
    from detectors import PriceBook


def read_prices(file: Path) -> "PriceBook":
    """Return the price book of the installed version with the terms of the file."""
    try:
        return detectors.PriceBook.from_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"cannot read {shown(file)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{shown(file)} is not TOML: {error}") from error
    except PriceTermsError as error:
        raise BadInputError(f"{shown(file)}: {error}") from error
