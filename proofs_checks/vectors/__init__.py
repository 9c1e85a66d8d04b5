"""Generator of the test vectors in `ot_draft/verify/vectors/corpus`: `python -m proofs_checks.vectors FOLDER` writes them.

rules: what engines do, once, for numbers of any kind. chance: where random numbers come from: given ones, a generator, or all of them.
faults: bugs of engines and injected faults. problems: the cases; make: the vectors; conventions, corpus: the files.
"""
