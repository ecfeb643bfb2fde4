"""What is counted before a rule runs: records, times, and the period behind monthly dollars."""
