"""Optimal selection from its definitions, and the checks of optimal_selection.py on random cases."""
