"""K-SEQ: the rule, and the smallest valid division factor."""

from .rule import KSeq

__all__ = ["KSeq"]
