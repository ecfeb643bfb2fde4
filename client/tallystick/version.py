"""The version, in a module of its own so that all others can name it."""

__version__ = "0.2.0"
