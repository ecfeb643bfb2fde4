"""The JSON API, a module a resource. What its blueprints share is in `blueprint`."""
