"""The report document as a PDF, for printing and for people without an account.

Its length is bounded: the first findings in full, up to 400 in all, the rest in the CSV. The same
document gives the same bytes.
"""

from service.reports.pdf.document import print_pdf

__all__ = ["print_pdf"]
