"""Wake-ups over Redis. They carry IDs and decide nothing: the row does."""
