"""How a report reads: money, numbers, labels, names and the headline.

Loads no dataframe library, so that the service can use it for pages, PDFs and mail.
"""
