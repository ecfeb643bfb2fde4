"""Operate an installation: admin actions, maintenance, metrics and the local stack."""
