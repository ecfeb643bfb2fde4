"""Checks of everything that a running service needs, for `tallystick doctor`."""
