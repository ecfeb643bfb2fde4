"""The service's commands of the `tallystick` console program, one module a noun."""
