"""The tests. A package, since a library that is installed brings a `tests` of its own."""
