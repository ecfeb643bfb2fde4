"""The JSON API: views only, one module per resource."""
