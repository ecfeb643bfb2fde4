"""What a browser sees, and what a load balancer asks. No page computes a number."""
