"""The sweeper and its background work."""
