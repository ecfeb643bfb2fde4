"""OpenAI: the usage and costs of an organization, by its admin API. README.md says what it has."""

from service.connections.openai.reports import OpenAI

PROVIDER = OpenAI()
