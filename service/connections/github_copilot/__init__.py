"""GitHub Copilot: the AI credits of an organization, by GitHub's API. README.md has the rest."""

from service.connections.github_copilot.reports import GitHubCopilot

PROVIDER = GitHubCopilot()
