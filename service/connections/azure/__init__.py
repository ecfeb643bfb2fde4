"""Azure: what Azure OpenAI and Foundry cost and count, by Azure's APIs. README.md has the rest."""

from service.connections.azure.reports import Azure

PROVIDER = Azure()
