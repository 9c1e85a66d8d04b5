"""Comparison of drafting methods with N draft nodes on real models, over a range of draft quality: `python -m llm_demo.bench.trees`.

A method (`Way`) combines a tree drafter with a path rule.
"""
