"""What caching would have saved, or has cost: the expressions behind `missed_caching`."""
