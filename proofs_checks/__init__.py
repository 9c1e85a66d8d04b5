"""Statements about draft selection, each checked by machine: a file each, by topic; `python -m proofs_checks` for the table."""
