"""The pages about the findings of an account: the list, one finding, and downloads."""
