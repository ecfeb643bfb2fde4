"""Reports and findings as HTML: cells of a notebook, and a self-contained page.

Pure functions of report documents; loads no dataframe library. Labels are escaped and inert.
"""
