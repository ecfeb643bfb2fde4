"""Uploaded files: received without a name, checked as a whole, stored re-encoded."""

from service.uploads.acceptance import Accepted, accept_upload, limit_uploads
from service.uploads.receiving import bounded_upload

__all__ = ["Accepted", "accept_upload", "bounded_upload", "limit_uploads"]
