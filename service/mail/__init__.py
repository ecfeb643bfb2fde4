"""Render and send mails from the outbox, in a job. No request waits for it."""
