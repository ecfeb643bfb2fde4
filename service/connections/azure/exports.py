"""The FOCUS export of Azure's Cost Management."""

from typing import Final

from service.connections.focus import focus_of

EXPORTS: Final = (focus_of("azure", "Azure", r"azure|microsoft"),)
