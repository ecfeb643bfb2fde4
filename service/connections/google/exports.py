"""The FOCUS export of Google Cloud."""

from typing import Final

from service.connections.focus import focus_of

EXPORTS: Final = (focus_of("google", "Google Cloud", r"google"),)
