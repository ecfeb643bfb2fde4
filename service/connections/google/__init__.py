"""Google Cloud: what its model services cost, by the billing export. README.md has the rest."""

from service.connections.google.reports import Google

PROVIDER = Google()
