"""Test vectors for verifiers of drafts, in JSON: replayed numbers, laws, and drafting together with verifying.

rules: what engines do, once, for numbers of any kind. chance: where random numbers come from: given ones, a generator, or all of them.
faults: what went wrong in engines, planted. problems: the cases; make: the vectors; files: the corpus. `readers/read.py` reads it.
"""
