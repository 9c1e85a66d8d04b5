"""Stored pairs (p, q) of the embedded models: capture and description."""
