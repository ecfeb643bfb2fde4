"""What two periods of an account are compared by."""
