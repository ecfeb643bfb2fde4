"""Logs and batch outputs of model providers and clouds."""
