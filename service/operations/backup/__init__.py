"""Backups of the database and the blobs: create, list, verify, restore and prune.

docs/decisions/workers/48-backups.md says why a backup is a whole.
"""
