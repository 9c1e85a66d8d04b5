"""Statements about draft selection, each checked by machine: one file a statement, `python -m proofs_checks` for the table."""
