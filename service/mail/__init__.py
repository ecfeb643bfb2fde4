"""Mail: rendered and sent by a job, from what the outbox says. No request ever waits for it."""
