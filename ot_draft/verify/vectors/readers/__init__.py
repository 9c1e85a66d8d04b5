"""Readers of the vectors: `read.py` for Python, and the same in C++, JavaScript and Rust. Each stands alone, to be copied."""

__all__ = ["read"]
