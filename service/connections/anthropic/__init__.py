"""Anthropic: the usage and costs of an organization, by its Admin API. README.md has the rest."""

from service.connections.anthropic.reports import Anthropic

PROVIDER = Anthropic()
