"""Test vectors for draft verifiers, in JSON: replays, output distributions, and drafting with verification.

`corpus` has the vectors, `files` reads them, and `readers` are readers to copy, in Python, C++, JavaScript and Rust. The generator is
`proofs_checks/vectors` in the repository.
"""

__all__ = ["readers"]
