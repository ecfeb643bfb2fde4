"""The page about spend and its downloads."""
