"""Uploaded files: received without a name, checked as a whole, stored re-encoded."""

from service.web.intake.receiving import bounded_upload
from service.web.intake.uploads import Accepted, accept_upload, limit_uploads

__all__ = ["Accepted", "accept_upload", "bounded_upload", "limit_uploads"]
