"""Reports and findings as HTML: cells of a notebook, and one page that needs no service.

Pure functions of report documents; loads no dataframe library. Labels are escaped and inert.
"""
