"""Coding agents on this machine: their session files, read in place, and a ledger of their calls.

`folders` finds the files, `files` reads one, `ledger` keeps each call once, `pricing` its dollars,
and `reading` brings them together. What is imported here loads neither Polars nor the price book;
`reading` and `pricing` load readers and prices only for what is new.
"""
