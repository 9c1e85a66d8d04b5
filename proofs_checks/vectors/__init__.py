"""Generator of the test vectors in `ot_draft/verify/vectors/corpus`: `python -m proofs_checks.vectors FOLDER` writes them.

rules: reference verifiers for Fractions and floats. chance: sources of random numbers. faults: bugs of engines and other faults to inject.
problems: the cases. make: the vectors. conventions, corpus: the files.
"""
