"""Pages about audits: upload, progress, report, downloads."""
