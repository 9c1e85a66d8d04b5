"""Fast forms of formulas: loops that numba compiles, and Triton kernels in `kernels`. One file per formula.

`ot_draft.dispatch` finds a fast form by the name of its formula, which stays the reference. A form returns NotImplemented for
arguments that it does not take, among them all where its package is not installed.
"""
