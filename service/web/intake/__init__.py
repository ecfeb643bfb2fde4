"""From a request's body to a stored audit that its view commits: gates, receiving, storing."""
