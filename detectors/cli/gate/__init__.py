"""The CI gate of `tallystick audit`: its options, its words, and what GitHub shows of it."""
