"""Examples. This is a package because an installed library has an `examples` package too."""
