"""What comes in: batches, files and spans, against their limits."""
