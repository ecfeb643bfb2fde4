"""PostgreSQL and Valkey in a data folder, unless `DATABASE_URL` and `REDIS_URL` are set."""
