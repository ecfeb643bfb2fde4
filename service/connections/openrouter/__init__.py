"""OpenRouter: the daily activity of an account, by its management key. README.md has the rest."""

from service.connections.openrouter.reports import OpenRouter

PROVIDER = OpenRouter()
