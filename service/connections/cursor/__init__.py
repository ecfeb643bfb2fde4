"""Cursor: the usage events of a team, by its Admin API. README.md has the rest."""

from service.connections.cursor.reports import Cursor

PROVIDER = Cursor()
