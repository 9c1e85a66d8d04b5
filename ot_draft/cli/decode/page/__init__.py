"""A page on which every token of a decoded text tells how it came about."""
