"""Check and time everything on a GPU."""
