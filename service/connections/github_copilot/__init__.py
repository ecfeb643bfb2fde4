"""GitHub Copilot: its reports come by hand. README.md has the rest."""

from service.connections.by_hand import ByHand

PROVIDER = ByHand("github-copilot", "GitHub Copilot")
