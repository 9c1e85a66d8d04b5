"""Optimal selection from its definitions, and the questions that optimal_selection.py asks of random cases."""
