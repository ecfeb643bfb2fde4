"""Google Cloud: its reports come by hand. README.md has the rest."""

from service.connections.by_hand import ByHand

PROVIDER = ByHand("google", "Google Cloud")
