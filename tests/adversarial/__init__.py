"""Files and bodies that cost a reader as much as possible for their bytes, in any size."""
