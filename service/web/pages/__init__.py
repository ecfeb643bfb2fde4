"""HTML pages and health checks: views only. No page computes a number."""
