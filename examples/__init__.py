"""A package, since a library that is installed brings an `examples` of its own."""
