"""The targets that an account's notices go to, and the deliveries to them."""
