"""From the bytes of a file to whole lines or JSON elements of UTF-8 text."""
