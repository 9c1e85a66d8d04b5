"""`python -m ot_draft` is `ot-draft`."""

from .cli import main

main(prog_name="ot-draft")
