"""The sweeper and the work it does in the background."""
