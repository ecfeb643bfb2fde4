"""Uploaded files: received without a name, checked as a whole, stored re-encoded."""

from service.uploads.receiving import ReceivedFile, bounded_upload, received_file
from service.uploads.storing import store_log

__all__ = ["ReceivedFile", "bounded_upload", "received_file", "store_log"]
