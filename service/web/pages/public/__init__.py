"""Pages that anyone can open."""
