"""Checks of ../k_seq_share.py: lemmas in one unknown, small k by z3, random problems and the search for worst cases."""
