"""The dashboard: what was spent, whether that is normal, what to fix and what was saved."""
