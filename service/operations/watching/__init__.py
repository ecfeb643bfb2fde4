"""Watch what accounts spend: unusual days, budgets, and the notices about both."""
