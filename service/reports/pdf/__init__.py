"""The report document as a PDF for print and for people without an account.

Bounded whatever the audit: the first findings in full, others in a table, and of very many the
first some hundreds. The same document gives the same bytes.
"""

from service.reports.pdf.document import print_pdf

__all__ = ["print_pdf"]
