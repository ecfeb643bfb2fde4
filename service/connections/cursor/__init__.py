"""Cursor: its reports come by hand. README.md has the rest."""

from service.connections.by_hand import ByHand

PROVIDER = ByHand("cursor", "Cursor")
