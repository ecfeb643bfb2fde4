"""AWS: what Bedrock costs and counts, by Cost Explorer and CloudWatch. README.md has the rest."""

from service.connections.aws.reports import AWS

PROVIDER = AWS()
