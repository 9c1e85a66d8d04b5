"""Statements about draft selection, each checked by computer, with one file per statement; `python -m proofs_checks` prints the table."""
