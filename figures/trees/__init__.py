"""Drafted paths and trees: block efficiency, simulated and measured, and what a lossless rule could still gain."""
