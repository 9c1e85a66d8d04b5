"""Test vectors for verifiers of drafts, in JSON: replayed numbers, distributions, and drafting together with verifying.

`corpus` has the vectors, `files` reads them, and `readers` are readers to copy, in Python, C++, JavaScript and Rust. The generator is
`proofs_checks/vectors` in the repository.
"""

__all__ = ["readers"]
