"""Sessions of coding agents: their logs on the machines of developers."""
