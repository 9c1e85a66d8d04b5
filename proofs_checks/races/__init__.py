"""Exponential races: coupling the drafts with the output by shared randomness instead of a selection rule."""
