"""The OpenAPI document, and the decorators that describe routes in it."""
