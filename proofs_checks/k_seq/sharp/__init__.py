"""What ../k_seq_share.py asks: lemmas in one unknown, small k by z3, random problems and the search for worst cases."""
