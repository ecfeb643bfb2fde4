"""Send notices to webhooks and Slack, in a job, and only to addresses on the public internet."""
