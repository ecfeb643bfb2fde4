"""How a report is shown, explained and compared without a service: in a notebook, or as a file.

Pure functions of report documents. Every label of a log goes out inert and escaped.
"""
