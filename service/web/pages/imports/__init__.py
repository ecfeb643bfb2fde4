"""The page about imports: batches by day and client, uploads, and audits of the account."""
