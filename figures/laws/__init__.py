"""Draft laws: comparison, hybrid drafting, and sampling without replacement."""
