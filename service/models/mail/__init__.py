"""The mail outbox, and the choice of report mails."""
