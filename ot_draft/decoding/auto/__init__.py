"""A shape that chooses itself: costs and acceptance are learnt while decoding, and every step takes what promises most."""

from .plan import Auto

__all__ = ["Auto"]
