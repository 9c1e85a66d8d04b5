"""Test of an engine under speculative decoding: its completions of a tiny pair of models against enumerated distributions."""

__all__ = ["engines", "tiny_pair"]
