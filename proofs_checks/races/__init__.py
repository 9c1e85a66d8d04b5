"""Exponential races: coupling the drafts with the output by shared randomness in the place of a selection rule."""
